// How well a language model predicts a text (spec app.lm).
#pragma once

#include "lithe/base/json.h"
#include "lithe/eval/text_windows.h"

namespace lithe {

struct Perplexity {
  double nll = 0;  // natural log, summed over the scored tokens
  int64_t tokens = 0, words = 0, lines = 0, bytes = 0;
  double mean_layers = 0;  // that a token ran under EvalConfig::exit; 0 without
  WindowSizes windows;
  bool carry_state = false;  // there were no windows
  double loss() const { return nll / double(tokens); }
  double token_perplexity() const;
  double word_perplexity() const;           // words as `wc -w` counts them
  double word_and_line_perplexity() const;  // line ends count as words, as in published WikiText figures
  double bits_per_byte() const;
  /// As `lithe eval --json` writes it; what is not finite is null.
  Json json() const;
};

/// What one window scored: the pieces of a text in its order.
struct TextPiece {
  double nll = 0;
  int64_t tokens = 0;
};

/// Every scored token, in the order of the text.
struct TokenScores {
  std::vector<int32_t> tokens, documents;  // what was to be predicted, and in which document, from 0
  std::vector<int32_t> positions;          // how many tokens of its window came before the one that predicts it
  std::vector<float> nll;
  bool with_logits = false;   // set before: keep the logits, too
  std::vector<float> logits;  // [tokens, vocabulary]
};

/// Scores every token of the store once, and the end of each document. A window of `context_length` rows moves by
/// `stride` rows within a document; only rows that no earlier window held are scored (the last `stride` of each
/// window). 0 for context_length: `default_context`; 0 for stride: the context length (disjoint windows). The result
/// does not depend on batch_tokens. With a cache_dtype every key and value is written to a cache of that type and read
/// from it, as generation does. With carry_state there are no windows: every document runs once, in pieces of
/// batch_tokens rows, each from the state of the one before. Polls stop_signal(), failing when asked to stop.
/// `progress(done, all)` optional. `pieces`, optional, receives what each window scored, for comparing two models on
/// the same text; `each`, optional, what each token did.
Perplexity perplexity(const Model& model, const TokenStore& text, const EvalConfig& config, int64_t default_context,
                      const std::function<void(int64_t, int64_t)>& progress = {},
                      std::vector<TextPiece>* pieces = nullptr, TokenScores* each = nullptr);

}  // namespace lithe
