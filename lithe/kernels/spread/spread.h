// One head's rows spread over many heads, each with its own scale and shift: the heads of MHE attention.
#pragma once

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// out[n,j,c] = x[n,c] * scale[j,c] + shift[j,c]. x [N,C], out [N,heads*C]; scale and shift [heads*C] in f32 (f64 for
/// f64), each may be absent (1, 0).
struct SpreadArgs {
  Tensor x, scale, shift, out;
  int64_t heads = 1;
};
Cost cost(const SpreadArgs& args);
void spread(const SpreadArgs& args);

/// dx[n,c] (+)= sum_j dout[n,j,c] scale[j,c]; dscale[j,c] += sum_n x[n,c] dout[n,j,c]; dshift[j,c] += sum_n
/// dout[n,j,c]. Absent outputs are skipped; dscale and dshift are f32 (f64 for f64) and always accumulate, in the order
/// of n.
struct SpreadGradArgs {
  Tensor x, scale, dout, dx, dscale, dshift;
  int64_t heads = 1;
  bool accumulate = false;
};
Cost cost(const SpreadGradArgs& args);
void spread_grad(const SpreadGradArgs& args);

}  // namespace lithe::kernels
