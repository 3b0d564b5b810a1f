// Rotary positions (spec pos.rope): pairs of each head's channels turn by position * base^(-2c/d_h).
#pragma once

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// out[n, head, :] = rotate(x[n, head, :], positions[n]). x, out [N, heads*head_dim]; positions i32 [N].
/// `interleaved`: pairs (2c, 2c+1); otherwise pairs (c, c+d_h/2). `inverse` turns back (the gradient).
/// out may be x; `accumulate` adds to out.
struct RopeArgs {
  Tensor x, positions, out;
  int64_t head_dim = 0;
  double base = 10000;
  bool interleaved = false, inverse = false, accumulate = false;
};
Cost cost(const RopeArgs& args);
void rope(const RopeArgs& args);

}  // namespace lithe::kernels
