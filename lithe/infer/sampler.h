// Choosing the next token from logits.
#pragma once

#include <optional>
#include <span>

#include "lithe/base/random.h"
#include "lithe/recipe/generate_config.h"

namespace lithe {

/// The next token. Greedy (do_sample off or temperature 0): the highest logit, the lower id on ties. Otherwise
/// drawn from softmax(logits / temperature) restricted to the top_k most likely and then to the smallest set whose
/// probability reaches top_p, without those less likely than min_p times the most likely. First, logits of `seen`
/// tokens are divided (positive) or multiplied (negative) by the repetition penalty. The draw is a pure function of
/// (seed, sequence, position).
int32_t choose_token(std::span<const float> logits, std::span<const int32_t> seen, const GenerateConfig& config,
                     int64_t sequence, int64_t position);

/// What choose_token() draws from.
struct TokenDistribution {
  std::optional<int32_t> certain;     // greedy: the one token
  std::vector<double> probabilities;  // else of every token, which add up to 1
  double of(int32_t token) const { return certain ? double(token == *certain) : probabilities[size_t(token)]; }
};
TokenDistribution token_distribution(std::span<const float> logits, std::span<const int32_t> seen,
                                     const GenerateConfig& config);

}  // namespace lithe
