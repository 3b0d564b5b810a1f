// Continuing prompts, many at once, with the model's decode state.
#pragma once

#include "lithe/infer/sampler.h"
#include "lithe/model/model.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

struct Generation {
  std::string text;             // without the prompt
  std::vector<int32_t> tokens;  // of it
  std::string finish;           // "stop" (a stop string), "end" (end of text), "length", "interrupted",
                                // "early_stop" (the model's head said so),
                                // "positions" (the model has no more, and max_new_tokens would have allowed some)
  int64_t prompt_tokens = 0;
};

struct GenerateTimes {
  int64_t prompt_tokens = 0, new_tokens = 0;
  int64_t peak_state_bytes = 0;      // of decode state in use
  int64_t peak_state_allocated = 0;  // of what the ledger has for it
  /// Of all steps. A step that reads prompts and continues others is shared out by rows.
  double prefill_seconds = 0, decode_seconds = 0;
  double mean_layers = 0;  // that a token ran, under a rule of early exits; 0 without
};

/// What happens on the way. Both are optional.
struct GenerateEvents {
  /// Prompt i's text as it comes, complete UTF-8 characters only, never past a stop string.
  std::function<void(size_t prompt, std::string_view piece)> on_text;
  /// Prompt i is done; called in the order of prompts.
  std::function<void(size_t prompt, Generation&& result)> on_done;
};

/// GenerateConfig::early_stop: Pr(stop) >= Pr(goes on) + margin.
bool stops_early(double probability, double margin);

/// Continues each prompt: at most config.batch_size at once, and as many as config.cache_tokens allows. A prompt that
/// is done makes room at once for the next, which is read in the same step in which others are continued, at most
/// config.prefill_tokens of it at a time. Results do not depend on batch_size, cache_tokens or on who runs beside:
/// sequences do not see each other, and draws are a function of (seed, prompt, token). Memory is bounded by the
/// prompts themselves, the decode state and some results that wait for those of earlier prompts. Once stop_signal()
/// is set, prompts under way are done ("interrupted") and no others begin.
/// Fails (usage), before anything runs, when a prompt leaves no room below the model's longest position or in the
/// cache.
void generate_each(const Model& model, const Tokenizer& tokenizer, const std::vector<std::string>& prompts,
                   const GenerateConfig& config, const GenerateEvents& events, GenerateTimes* times = nullptr);

/// The same, with all results at the end; those of prompts that did not begin are empty and "interrupted".
std::vector<Generation> generate(const Model& model, const Tokenizer& tokenizer,
                                 const std::vector<std::string>& prompts, const GenerateConfig& config,
                                 const std::function<void(size_t, std::string_view)>& on_text = {},
                                 GenerateTimes* times = nullptr);

/// A text's tokens as generate_each() begins with them: behind bos (or eos) where config says so or there is no text.
std::vector<int32_t> prompt_tokens(const Tokenizer& tokenizer, const std::string& text, const GenerateConfig& config);

/// Continuations of prompts that are tokens, each decoded as a text of its own.
std::vector<Generation> continue_tokens(const Model& model, const Tokenizer& tokenizer,
                                        const std::vector<std::vector<int32_t>>& prompts, const GenerateConfig& config);

}  // namespace lithe
