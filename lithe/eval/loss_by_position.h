// How a model's loss changes with what it has read: where states or caches forget, it stops falling.
#pragma once

#include "lithe/eval/perplexity.h"

namespace lithe {

/// Tokens that had [from, to) tokens of their window before them.
struct PositionLoss {
  int64_t from = 0, to = 0, tokens = 0;
  double nll = 0;  // natural log, summed
  double loss() const { return nll / double(tokens); }
};

/// By half octaves of the number of tokens before: [0, 8), [8, 12), [12, 16), [16, 24) ... Only those with tokens, in
/// their order.
std::vector<PositionLoss> loss_by_position(const TokenScores& scores);

}  // namespace lithe
