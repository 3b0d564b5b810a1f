// Normalisation of rows (spec norm.layer, norm.rms).
#pragma once

#include "lithe/autograd/var.h"
#include "lithe/kernels/norm/norm.h"

namespace lithe {

/// 1 + weight, for norms whose weights start as 0.
Var plus_one(const Var& weight);

/// weight * normalised(x) + bias; weight, bias [C] of x's last axis; bias may be undefined.
Var normalise(kernels::NormKind kind, const Var& x, const Var& weight, const Var& bias, double eps);

/// normalise(a + b) in one pass over both, which also writes the sum that the gradient needs.
Var normalise_sum(kernels::NormKind kind, const Var& a, const Var& b, const Var& weight, const Var& bias, double eps);

}  // namespace lithe
