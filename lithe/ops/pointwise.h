// Functions of single numbers for gates and feature maps.
#pragma once

#include "lithe/autograd/var.h"
#include "lithe/kernels/pointwise/pointwise.h"

namespace lithe {

/// f(x), any shape; `wide`: in f32 (f64 for f64), as decays and weights of recurrences are.
Var pointwise(kernels::Pointwise kind, const Var& x, bool wide = false);

}  // namespace lithe
