// Feature maps of linear attention that look at a whole head.
#pragma once

#include "lithe/autograd/var.h"
#include "lithe/kernels/feature_map/feature_map.h"
#include "lithe/ops/sequences.h"

namespace lithe {

/// The softmax over each head's columns: x [N, heads*C] -> the same shape.
Var softmax_features(const Var& x, int64_t heads);

/// Positive random features [Choromanski et al. 2021]: x [N, heads*d], directions [d, m] ->
///   m^(-1/2) e^(x' directions - |x'|^2 / 2 - c), x' = x / d^(1/4), [N, heads*m].
/// c is the largest of x' directions of the row and head where `centre`, else 0. Centred features are for results that
/// no factor on a row changes, being divided by sums of these features: gradients take c and |x'|^2 / 2 as constants.
Var random_features(const Var& x, const Tensor& directions, int64_t heads, bool centre);
/// Of keys that every row of their sequence reads: c is the largest exponent of the sequence and head, so that nothing
/// overflows; gradients take it as a constant, which quotients of sums of these features do not notice.
Var random_features(const Var& x, const Tensor& directions, int64_t heads, const Sequences& sequences);

/// m directions in d dimensions, f64 [d, m]: columns of normal length, orthogonal in blocks of d. A pure function of
/// `seed` and `layer`.
Tensor orthogonal_directions(int64_t d, int64_t m, uint64_t seed, int64_t layer);

}  // namespace lithe
