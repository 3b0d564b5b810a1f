// Functions of single numbers that gates and feature maps are made of (spec kernel.linear, linattn.gated). Results may
// be kept wider than the rows, as decays and states are.
#pragma once

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

enum class Pointwise {
  sigmoid,      // 1 / (1 + e^-x)
  log_sigmoid,  // log of that
  softplus,     // log(1 + e^x)
  exp,          // e^x
  elu1,         // x + 1 above 0, else e^x
};

/// y = f(x), any shape; y in x's dtype or in f32 (f64 for f64). Arithmetic in f32 for bf16.
struct PointwiseArgs {
  Pointwise kind;
  Tensor x, y;
};
Cost cost(const PointwiseArgs& args);
void pointwise(const PointwiseArgs& args);

/// dx (+)= f'(x) dy; dy in y's dtype, dx in x's.
struct PointwiseGradArgs {
  Pointwise kind;
  Tensor x, dy, dx;
  bool accumulate = false;
};
Cost cost(const PointwiseGradArgs& args);
void pointwise_grad(const PointwiseGradArgs& args);

}  // namespace lithe::kernels
