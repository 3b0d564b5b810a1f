// Continuing prompts, many at once, with the model's decode state.
#pragma once

#include "lithe/infer/sampler.h"
#include "lithe/model/model.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

struct Generation {
  std::string text;             // without the prompt
  std::vector<int32_t> tokens;  // of it
  std::string finish;           // "stop" (a stop string), "end" (end of text), "length", "interrupted"
  int64_t prompt_tokens = 0;
};

struct GenerateTimes {
  int64_t prompt_tokens = 0, new_tokens = 0, peak_state_bytes = 0;
  double prefill_seconds = 0, decode_seconds = 0;
};

/// Continues each prompt. Results do not depend on batch_size: sequences do not see each other, and finished ones
/// leave the batch. `on_text(i, piece)`, optional, receives prompt i's text as it comes, complete UTF-8 characters
/// only, never past a stop string. Polls stop_signal(). A prompt that leaves no room below the model's longest
/// position fails.
std::vector<Generation> generate(const Model& model, const Tokenizer& tokenizer,
                                 const std::vector<std::string>& prompts, const GenerateConfig& config,
                                 const std::function<void(size_t, std::string_view)>& on_text = {},
                                 GenerateTimes* times = nullptr);

}  // namespace lithe
