// Continuing prompts that are texts, many at once.
#pragma once

#include "lithe/infer/decode_loop.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

struct Generation {
  std::string text;                              // without the prompt
  std::vector<int32_t> tokens;                   // of it
  Finish finish = Finish::interrupted;           // cancelled also where on_text wanted no more
  int64_t prompt_tokens = 0, cached_tokens = 0;  // cached: DecodeResult::cached_tokens
  bool begun = false;                            // it had its turn before it was done
  std::exception_ptr error;                      // of Finish::failed
};

/// A request whose result is a text: `tokens` are a prompt of this tokenizer, which outlives it, and config.stop ends
/// the text. `first`: the prompt has no text. on_text and on_done as in GenerateEvents, but for the number.
DecodeRequest text_request(const Tokenizer& tokenizer, std::vector<int32_t> tokens, bool first,
                           const GenerateConfig& config, std::function<bool(std::string_view piece)> on_text,
                           std::function<void(Generation&& result)> on_done);

/// What happens on the way. Both are optional.
struct GenerateEvents {
  /// Prompt i's text as it comes, complete UTF-8 characters only, never past a stop string. False: no more is wanted.
  std::function<bool(size_t prompt, std::string_view piece)> on_text;
  /// Prompt i is done; called in the order of prompts.
  std::function<void(size_t prompt, Generation&& result)> on_done;
};

/// What may choose tokens beside the model and the settings.
struct GenerateHelp {
  LogitSteps steps = {};
  /// Drafts draft_tokens at a time, at most (DraftLength); prompts are then continued one after another. Greedy: the
  /// tokens of the model alone, up to ties. Sampled: equally distributed [Leviathan et al. 2023]. Fails (usage) when
  /// the model's state cannot forget tokens.
  Drafter* drafter = nullptr;
  int64_t draft_tokens = 4;
  /// Of the model's weights (Adapter).
  const LowRankUpdates* adapter = nullptr;
};

/// Continues each prompt by a DecodeLoop of config.batch_size slots and config.cache_tokens tokens. Prompt number i has
/// key i: results do not depend on batch_size, cache_tokens or on who runs beside. Memory is bounded by the prompts
/// themselves, the decode state and some results that wait for those of earlier prompts. Once stop_signal() is set,
/// prompts under way are interrupted and no others begin.
/// Fails (usage), before anything runs, when a prompt leaves no room below the model's longest position or in the
/// cache.
void generate_each(const Model& model, const Tokenizer& tokenizer, const std::vector<std::string>& prompts,
                   const GenerateConfig& config, const GenerateEvents& events, GenerateTimes* times = nullptr,
                   const GenerateHelp& help = {});

/// The same, with all results at the end; those of prompts that did not begin are empty and interrupted.
std::vector<Generation> generate(const Model& model, const Tokenizer& tokenizer,
                                 const std::vector<std::string>& prompts, const GenerateConfig& config,
                                 const std::function<bool(size_t, std::string_view)>& on_text = {},
                                 GenerateTimes* times = nullptr);

/// A text's tokens as generate_each() begins with them: behind bos (or eos) where config says so or there is no text.
std::vector<int32_t> prompt_tokens(const Tokenizer& tokenizer, const std::string& text, const GenerateConfig& config);

/// generate_each() of prompts that are tokens, each continuation decoded as a text of its own.
void continue_each(const Model& model, const Tokenizer& tokenizer, const std::vector<std::vector<int32_t>>& prompts,
                   const GenerateConfig& config, const GenerateEvents& events, GenerateTimes* times = nullptr,
                   const GenerateHelp& help = {});

/// Continuations of prompts that are tokens, each decoded as a text of its own.
std::vector<Generation> continue_tokens(const Model& model, const Tokenizer& tokenizer,
                                        const std::vector<std::vector<int32_t>>& prompts, const GenerateConfig& config);

}  // namespace lithe
