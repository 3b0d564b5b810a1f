// Layer and RMS normalisation of rows (spec norm.layer, norm.rms). f64, f32, bf16 rows; statistics and
// weights in f32 (f64 for f64).
#pragma once

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

enum class NormKind {
  layer_sigma,     // (x - mean) / (sigma + eps), sigma = population standard deviation (TB 6.32, E06)
  layer_variance,  // (x - mean) / sqrt(sigma^2 + eps)
  rms,             // x / sqrt(mean(x^2) + eps)
};

/// y[n,c] = weight[c] * normalised(x)[n,c] + bias[c]. mean [N] (layer kinds) and scale [N] (the factor
/// 1/(sigma+eps) or its like) are kept for the gradient; both may be absent. bias may be absent.
/// With `residual` [N,C], x + residual is normalised and written to `sum` (which may be x or residual).
struct NormArgs {
  NormKind kind;
  Tensor x, residual, sum, weight, bias, y, mean, scale;
  double eps = 1e-5;
};
Cost cost(const NormArgs& args);
void norm(const NormArgs& args);

/// dx (+)= gradient through the normalisation; dweight[c], dbias[c] always accumulate (f32; f64 for f64).
/// x is what was normalised (the sum, when there was a residual). Absent outputs are skipped. dx may be dy.
struct NormGradArgs {
  NormKind kind;
  Tensor x, weight, mean, scale, dy, dx, dweight, dbias;
  double eps = 1e-5;
  bool accumulate = false;
};
Cost cost(const NormGradArgs& args);
void norm_grad(const NormGradArgs& args);

}  // namespace lithe::kernels
