// Rows of features for linear attention that are made of all numbers of a head: the softmax over them, and positive
// random features from their products with random vectors (spec kernel.linear, kernel.favor).
#pragma once

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// Over the C columns of each head of x, y [N, heads*C]:
///   softmax:     y = e^x / sum e^x
///   exponential: y = factor e^(x - shift - m), m the largest x of the head where `centre`, else 0
/// shift [N, heads] f32 (f64 for f64), exponential alone, may be absent.
struct FeatureMapArgs {
  enum class Kind { softmax, exponential } kind = Kind::softmax;
  Tensor x, shift, y;
  int64_t heads = 1;
  double factor = 1;
  bool centre = false;
};
Cost cost(const FeatureMapArgs& args);
void feature_map(const FeatureMapArgs& args);

/// dx (+)= the gradient from dy and y, as if m were a constant: what divides by the sum of features does not depend on
/// it. dshift, optional, is set.
struct FeatureMapGradArgs {
  FeatureMapArgs::Kind kind;
  Tensor y, dy, dx, dshift;
  int64_t heads = 1;
  bool accumulate = false;
};
Cost cost(const FeatureMapGradArgs& args);
void feature_map_grad(const FeatureMapGradArgs& args);

}  // namespace lithe::kernels
