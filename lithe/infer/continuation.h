// One prompt on its way: its tokens, its text as it becomes known, and when it ends.
#pragma once

#include <deque>

#include "lithe/infer/generate.h"

namespace lithe {

class Continuation {
 public:
  /// `limit`: tokens to add at most; `first`: nothing stands before them, the prompt has no text.
  Continuation(size_t prompt, std::vector<int32_t> tokens, int64_t limit, const Tokenizer& tokenizer, bool first);

  size_t prompt() const { return prompt_; }
  /// Prompt and continuation.
  const std::vector<int32_t>& tokens() const { return tokens_; }
  int64_t prompt_tokens() const { return result_.prompt_tokens; }
  /// Tokens that the sequence may come to.
  int64_t most_tokens() const { return result_.prompt_tokens + limit_; }
  /// Adds the token that `logits` and the draw for it choose; false when the continuation is done.
  bool accept(std::span<const float> logits, const GenerateConfig& config, const GenerateEvents& events);
  /// The same with a token that was chosen elsewhere.
  bool add(int32_t token, const GenerateConfig& config, const GenerateEvents& events);
  void stop_early(const GenerateConfig& config, const GenerateEvents& events) {
    finish("early_stop", config.stop, events);
  }
  void interrupt(const GenerateEvents& events) { finish("interrupted", {}, events); }
  Generation take_result() { return std::move(result_); }

 private:
  size_t prompt_;
  const Tokenizer* tokenizer_;
  std::vector<int32_t> tokens_;
  int64_t limit_;
  StreamDecoder decoder_;
  std::string pending_;  // decoded text that may still turn out to be the start of a stop string
  Generation result_;

  bool cut_at_stop(const std::vector<std::string>& stops);
  void emit(size_t bytes, const GenerateEvents& events);
  bool finish(const char* why, const std::vector<std::string>& stops, const GenerateEvents& events);
};

/// Adds the continuation of prompt number `waiting.size()`, whose tokens must fit the model's positions and the cache.
void add_continuation(std::deque<Continuation>& waiting, const Model& model, const Tokenizer& tokenizer,
                      std::vector<int32_t> tokens, bool first, const GenerateConfig& config);
/// Continuations of texts.
std::deque<Continuation> continuations(const Model& model, const Tokenizer& tokenizer,
                                       const std::vector<std::string>& prompts, const GenerateConfig& config);

}  // namespace lithe
