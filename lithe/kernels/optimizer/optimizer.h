// The optimiser's passes over parameters (spec train.adam).
#pragma once

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// One AdamW step with decoupled decay, in one pass:
///   g = gradient_scale * gradient;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
///   param -= lr (m / (1-b1^step) / (sqrt(v / (1-b2^step)) + eps) + weight_decay param)
/// param, gradient, m, v: f32 (or all f64), same count. shadow, optional: the bf16 copy of param that the
/// forward pass reads. step counts from 1. `clear` sets the gradient to 0 after use.
struct AdamWArgs {
  Tensor param, gradient, m, v, shadow;
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0, gradient_scale = 1;
  int64_t step = 1;
  bool clear = false;
};
Cost cost(const AdamWArgs& args);
void adamw(const AdamWArgs& args);

/// Sum of squares in double, over fixed blocks of 65536 elements added in order: the same bits for any
/// number of threads. f64, f32 or bf16. Infinite or NaN when an element is.
double sum_of_squares(const Tensor& x);

/// True when every element is finite.
bool all_finite(const Tensor& x);

}  // namespace lithe::kernels
