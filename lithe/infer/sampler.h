// One token from one row of logits, as GenerateConfig says.
#pragma once

#include "lithe/infer/logit_steps.h"

namespace lithe {

/// The next token. Greedy (do_sample off or temperature 0): the highest logit, the lower id on ties. Otherwise
/// drawn from softmax(logits / temperature) restricted to the top_k most likely and then to the smallest set whose
/// probability reaches top_p, without those less likely than min_p times the most likely. First, logits of `seen`
/// tokens are divided (positive) or multiplied (negative) by the repetition penalty. The draw is uniform_draw().
int32_t choose_token(std::span<const float> logits, std::span<const int32_t> seen, const GenerateConfig& config,
                     uint64_t key, int64_t position);
/// What choose_token() draws from.
TokenDistribution token_distribution(std::span<const float> logits, std::span<const int32_t> seen,
                                     const GenerateConfig& config);

/// Where the draw for token number `position` of a continuation falls, in [0, 1): a function of the seed and of the
/// request's key.
double uniform_draw(int64_t seed, uint64_t key, int64_t position, const char* purpose = "generate");

}  // namespace lithe
