// How likely a model holds tokens, given those before them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lithe/model/model.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

/// Rows whose logits stand in memory at a time where a text is scored.
inline constexpr int64_t kRowsOfLogits = 128;

/// The tokens from `begin` on are scored, each by those before it.
struct TokenRequest {
  std::vector<int32_t> tokens;  // at most one more than the model has positions: the last is only predicted
  size_t begin = 1;             // at least 1
  double log_likelihood = 0;    // natural log, the sum of `each` in their order
  bool greedy = true;           // greedy decoding would give them
  std::vector<double> each;     // of each scored token
};

/// `target` behind `text`, as EleutherAI's harness cuts them: white space at the end of the text belongs to the target;
/// the text is behind bos (or eos) where add_bos_token says so or it is empty; the beginning of what is too long for
/// the model's positions goes. Fails where the target adds no token, or is longer than the positions itself.
TokenRequest continuation_request(const Model& model, const Tokenizer& tokenizer, std::string text, std::string target,
                                  bool add_bos_token);
/// bos, or eos where the tokenizer has none. Fails where it has neither.
int32_t token_of_beginning(const Tokenizer& tokenizer);

/// Scores requests, the longest first, as many at once as have `batch_tokens` tokens (one at least). Results do not
/// depend on batch_tokens or on the other requests. Fails (usage) on tokens that the model does not have and on
/// requests without tokens; polls stop_signal(), failing when asked to stop.
void score_tokens(const Model& model, std::vector<TokenRequest>& requests, int64_t batch_tokens);

}  // namespace lithe
