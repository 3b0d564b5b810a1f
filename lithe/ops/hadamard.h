// The Hadamard transform of rows with a learned scale and shift (spec proj.hadamard).
#pragma once

#include "lithe/autograd/var.h"

namespace lithe {

/// x [N,C] -> alpha * (x H * scale) + beta [N,C], H of `order` >= C (see kernels/hadamard/hadamard.h). alpha and beta
/// [C], either may be undefined.
Var hadamard(const Var& x, const Var& alpha, const Var& beta, int64_t order, double scale);

}  // namespace lithe
