// Completions and chats in the form of OpenAI's interface: requests read, answers written. Nothing here knows of HTTP.
#pragma once

#include "lithe/base/json.h"
#include "lithe/serve/served_model.h"

namespace lithe {

/// One request for texts, read and checked.
struct CompletionRequest {
  bool chat = false, stream = false, include_usage = false, echo = false;
  bool only_prompt = false;                   // max_tokens 0: nothing is added
  std::vector<std::vector<int32_t>> prompts;  // each as the model begins with it
  std::vector<bool> empty;                    // prompts without a text
  std::vector<bool> begun;                    // prompts whose first token the client did not send
  GenerateConfig config;                      // of each choice
  int64_t n = 1;                              // choices of each prompt
  std::optional<int64_t> logprobs;            // log-probabilities of tokens, and how many of the likeliest ones
  LogitSteps steps;                           // penalties and biases
  std::shared_ptr<GrammarMasks> grammar;      // where answers must have a form
  const Adapter* adapter = nullptr;           // of the model, that answers with it
};

/// Reads the body of /v1/completions or, `chat`, /v1/chat/completions. Fails (usage) with a sentence that names the
/// key: on keys that are not known or not supported, on values out of range, and where the model has no chat template.
CompletionRequest read_completion(const Json& body, const ServedModel& model, bool chat);

/// A token of an answer.
struct CompletionToken {
  std::string text;
  ScoredToken score;
};
/// What is known of one choice so far.
struct Completion {
  std::string text;
  std::vector<CompletionToken> tokens;        // where log-probabilities are wanted
  std::string finish;                         // "stop", "length"; empty: goes on
  int64_t new_tokens = 0, cached_tokens = 0;  // cached: of the prompt
};

/// The parts of answers that are the same for all choices.
struct CompletionHead {
  std::string id, model;
  int64_t created = 0;
};
/// An answer of several choices. `echoed`: prompts' texts and scored tokens, which stand before those of each choice.
Json whole_answer(const CompletionRequest& request, const CompletionHead& head, const Tokenizer& tokenizer,
                  const std::vector<Completion>& echoed, const std::vector<Completion>& choices);
/// One piece of a stream. `first`: of its choice. *offset: characters of the choice's tokens before it, and then with
/// it.
Json answer_chunk(const CompletionRequest& request, const CompletionHead& head, const Tokenizer& tokenizer,
                  size_t choice, const Completion& piece, bool first, size_t* offset);
/// The last piece, where usage was asked for.
Json usage_chunk(const CompletionRequest& request, const CompletionHead& head, const std::vector<Completion>& choices);
Json usage(const CompletionRequest& request, const std::vector<Completion>& choices);

/// A step that keeps the scores of the rows it sees: of choice number n behind `prompt` tokens, by tokens.size() -
/// prompt.
class ScoreRecorder final : public RowStep {
 public:
  ScoreRecorder(int64_t top) : top_(top) {}
  void apply(LogitRow& row) const override;
  /// What the model said of `token` as number `index` behind the prompt; the scores of the token are its own.
  ScoredToken of(size_t index, int32_t token) const;

 private:
  int64_t top_;
  mutable std::map<size_t, std::vector<float>> rows_;  // of the last few tokens: the logits
};

/// The error object of the interface.
Json error_body(const std::string& message, const std::string& type);

}  // namespace lithe
