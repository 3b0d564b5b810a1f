// The tokens by which Whisper is told what to write, and writes when it was said [Radford et al. 2022].
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lithe/base/files.h"
#include "lithe/base/json.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

/// A transcript is begin, a language and a task where there are several, no_times or not, and then text, which stands
/// between times where no_times does not precede it; end.
struct SpeechTokens {
  int32_t begin = 0, end = 0;                       // <|startoftranscript|>, <|endoftext|>
  std::optional<int32_t> no_times;                  // <|notimestamps|>
  std::optional<int32_t> before, no_speech;         // <|startofprev|>; <|nospeech|>, in older files <|nocaptions|>
  int32_t first_time = 0, times = 0;                // <|0.00|>, and how many tokens from it on are spelt so
  std::map<std::string, int32_t> languages, tasks;  // "en"; "transcribe", "translate"; empty: one language alone
  std::vector<int32_t> never, never_first;          // suppress_tokens, begin_suppress_tokens
  std::optional<int64_t> most_first_time;           // max_initial_timestamp_index
  std::map<int64_t, int32_t> forced;                // forced_decoder_ids: of places behind begin, from 1

  bool is_time(int32_t token) const { return token >= first_time && token < first_time + times; }
};

/// By the tokenizer of a run and its generation_config.json, where it has one. None: the tokenizer has no
/// <|startoftranscript|>. Fails, naming the file, on ids that are not among the tokenizer's and on keys of another
/// form.
std::optional<SpeechTokens> speech_tokens(const Tokenizer& tokenizer, const Path& run);
/// By what such a file holds; `origin` names it.
std::optional<SpeechTokens> speech_tokens(const Tokenizer& tokenizer, const Json& settings, const std::string& origin);

/// What is to be written of a sound.
struct SpeechChoice {
  std::string language, task;  // empty: what generation_config.json forces, else the likeliest; transcribe
  bool times = false;
};

/// Which tokens may follow which, as a rescore of beam_search(): first those that say what is written, one a step, of
/// several languages the likeliest; then all but those that are suppressed. Of times: they stand in pairs, but before
/// the end; none is before the one before it; a text begins with one of the first; where all times together are
/// likelier than every other token, one follows. What is left sums to 1.
class SpeechRules {
 public:
  /// Fails (usage) on a language or a task that the model has not, naming those that there are.
  SpeechRules(const SpeechTokens& tokens, const SpeechChoice& choice);
  /// Tokens that say what is written.
  int64_t instructions() const { return int64_t(first_.size()); }
  /// Fails where they leave no token.
  void operator()(std::span<const int32_t> tokens, std::span<double> log_probabilities) const;
  /// The language among the first of `tokens`; empty: it has none.
  std::string language_of(std::span<const int32_t> tokens) const;

 private:
  const SpeechTokens tokens_;
  bool times_;
  std::vector<std::vector<int32_t>> first_;  // what may stand at each of the first places

  void forbid_times(std::span<const int32_t> tokens, std::span<double> scores) const;
};

}  // namespace lithe
