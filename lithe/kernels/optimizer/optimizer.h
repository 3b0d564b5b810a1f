// The optimiser's passes over parameters (spec train.adam).
#pragma once

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// Numbers of an 8-bit state that share a scale (the last may be fewer).
constexpr int64_t kStateBlock = 256;
constexpr int64_t state_blocks(int64_t count) { return (count + kStateBlock - 1) / kStateBlock; }

/// One AdamW step with decoupled decay, in one pass:
///   g = gradient_scale * gradient;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
///   param -= lr (m / (1-b1^step) / (sqrt(v / (1-b2^step)) + eps) + weight_decay param)
/// param, gradient, m, v: f32 (or all f64), same count. shadow, optional: the bf16 copy of param that the
/// forward pass reads. step counts from 1. `clear` sets the gradient to 0 after use.
/// With m_scale and v_scale, f32 [state_blocks(count)], the moments are 8-bit codes, m i8 and v u8 (reference.h): each
/// block is decoded, updated, used, and encoded anew by its largest number, and no number above 0 in v becomes 0.
/// With `rest` param is split (below): bf16, and there is no shadow.
struct AdamWArgs {
  Tensor param, gradient, m, v, shadow;
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0, gradient_scale = 1;
  int64_t step = 1;
  bool clear = false;
  Tensor m_scale, v_scale;
  Tensor rest;
};
Cost cost(const AdamWArgs& args);
void adamw(const AdamWArgs& args);

/// An f32 number x as two halves of 16 bits, exactly: `high` is the bf16 number nearest to x, halves away from 0, and
/// `rest`, two bytes a number as u8 [count, 2], the signed difference of their bits in units of x's last place. high
/// bf16 and wide f32 of the same count.
void split(const Tensor& wide, const Tensor& high, const Tensor& rest);
void join(const Tensor& high, const Tensor& rest, const Tensor& wide);

/// Sum of squares in double, over fixed blocks of 65536 elements added in order: the same bits for any
/// number of threads. f64, f32 or bf16. Infinite or NaN when an element is.
double sum_of_squares(const Tensor& x);

/// True when every element is finite.
bool all_finite(const Tensor& x);

}  // namespace lithe::kernels
