// Sums of equal rows with learned weights.
#pragma once

#include <vector>

#include "lithe/autograd/var.h"

namespace lithe {

/// sum_k weights[k] xs[k]; xs [N,D] of one shape and dtype, weights [xs.size()] in f32 (f64 for f64).
Var weighted_sum(const std::vector<Var>& xs, const Var& weights);

}  // namespace lithe
