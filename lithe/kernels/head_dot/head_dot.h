// Each row's product of its own query and key, head by head.
#pragma once

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// s[n, head] = scale sum_c a[n, head, c] b[n, head, c]. a, b [N, heads*head_dim]; s [N, heads] f32 (f64 for f64).
struct HeadDotArgs {
  Tensor a, b, s;
  double scale = 1;
};
Cost cost(const HeadDotArgs& args);
void head_dot(const HeadDotArgs& args);

/// da (+)= scale ds b, db (+)= scale ds a; either may be absent.
struct HeadDotGradArgs {
  Tensor a, b, ds, da, db;
  double scale = 1;
  bool accumulate_da = false, accumulate_db = false;
};
Cost cost(const HeadDotGradArgs& args);
void head_dot_grad(const HeadDotGradArgs& args);

}  // namespace lithe::kernels
