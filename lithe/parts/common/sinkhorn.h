// Soft permutations.
#pragma once

#include "lithe/autograd/var.h"

namespace lithe {

/// exp(logits) of the first n columns, whose rows and then columns are divided by their sums, `iterations` times:
/// nearly doubly stochastic [Sinkhorn 1964]. logits [n, at least n] in f32 or f64, the result [n, n]. Its columns sum
/// to 1.
Var sinkhorn(const Var& logits, int64_t n, int64_t iterations);

}  // namespace lithe
