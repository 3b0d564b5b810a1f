// Softmax weights that are the same for every query (spec decon.nonapprox): each row is a weighted mean of the rows up
// to it, made in one pass with a running maximum, sum and numerator.
#pragma once

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// Rows [row, row + rows) are one sequence or, with a `state`, continue the one that it remembers, and bring it
/// forward. state [heads, value_dim + 2] f32 (f64 for f64): of each head sum_j e^(s_j - m) v_j, the maximum m, sum_j
/// e^(s_j - m). Zeros remember nothing.
struct CumulativeSegment {
  int64_t row = 0, rows = 0;
  Tensor state;
};

/// out[i,head,:] = sum_j e^s[j,head] v[j,head,:] / sum_j e^s[j,head] over the rows j of i's segment: those up to i when
/// `causal`, otherwise all (then without states). s [N, heads] f32 (f64 for f64), v and out [N, heads*value_dim].
/// lse [N, heads] like s, optional: the log of the sum of exponentials, kept for the gradient. Rows that no segment
/// covers are not written. Sums in f32 for f32 and bf16; safe for s of any size.
struct CumulativeSoftmaxArgs {
  Tensor s, v, out, lse;
  std::vector<CumulativeSegment> segments;
  bool causal = true;
};
Cost cost(const CumulativeSoftmaxArgs& args);
void cumulative_softmax(const CumulativeSoftmaxArgs& args);

/// Gradients for the same arguments (segments without states, covering all rows). Each is set, or added to when its
/// flag says so.
struct CumulativeSoftmaxGradArgs {
  CumulativeSoftmaxArgs forward;  // with out and lse filled
  Tensor dout, ds, dv;
  bool accumulate_ds = false, accumulate_dv = false;
};
Cost cost(const CumulativeSoftmaxGradArgs& args);
void cumulative_softmax_grad(const CumulativeSoftmaxGradArgs& args);

}  // namespace lithe::kernels
