// Drafters by the name that options give them.
#pragma once

#include "lithe/infer/load.h"
#include "lithe/infer/speculative.h"

namespace lithe {

/// A drafter and the model that it may be.
struct NamedDrafter {
  LoadedModel model;
  std::unique_ptr<Drafter> drafter;  // null: none
};

/// `name`: "lookup" or "prompt" (lookup_drafter), "exit:N" (exit_drafter), or the directory of a run of the same
/// tokenizer, read with this precision (model_drafter); empty: none. Fails (usage) as these do.
NamedDrafter drafter_named(const std::string& name, const LoadedModel& loaded, const std::string& precision,
                           const GenerateConfig& config);

}  // namespace lithe
