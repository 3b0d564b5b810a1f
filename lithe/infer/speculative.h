// Drafters: who proposes tokens for a model to check (GenerateHelp, DecodeRequest::drafter).
#pragma once

#include "lithe/infer/drafter.h"
#include "lithe/model/model.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

/// A smaller model of the same tokenizer. Fails (usage) where it does not know its tokens or its state cannot forget
/// some.
std::unique_ptr<Drafter> model_drafter(const Model& drafter, const Tokenizer& tokenizer, const GenerateConfig& config);

/// The model itself, as far as its exit after `layers` layers, whose state is its own. Fails (usage) where it has none
/// there.
std::unique_ptr<Drafter> exit_drafter(const Model& model, int64_t layers, const Tokenizer& tokenizer,
                                      const GenerateConfig& config);

/// What followed the last `longest` tokens (or fewer) where they stood before, if they did.
std::unique_ptr<Drafter> lookup_drafter(int64_t longest = 3);

}  // namespace lithe
