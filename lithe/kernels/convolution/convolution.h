// Convolutions along time (spec conv.depthwise, conv.light, conv.full): of each channel with its own taps, and the rows
// that a product with a matrix makes a full convolution of.
#pragma once

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// Rows [row, row + rows) are one sequence or, with a `state` [taps - 1, C] f32 (f64 for f64), continue the one whose
/// last rows it holds, oldest first (zeros before the first), and bring it forward.
struct ConvolutionSegment {
  int64_t row = 0, rows = 0;
  Tensor state;
};

/// y[t, c] = sum_r w[r, c] x[t + ahead - r, c], rows beyond the segment being 0: `ahead` 0 is causal, (taps - 1) / 2
/// centred; states continue causal ones only. x, y [N, C], one type; w [taps, C] f32 (f64 for f64). Rows that no
/// segment covers are not written. Sums in f32 for f32 and bf16, in the order of the taps: results of a sequence do not
/// depend on others or on how its rows are cut into calls, to the bit.
struct ConvolutionArgs {
  Tensor x, w, y;
  std::vector<ConvolutionSegment> segments;
  int64_t ahead = 0;
};
Cost cost(const ConvolutionArgs& args);
void convolution(const ConvolutionArgs& args);

/// Gradients for the same arguments, with segments that cover all rows; a segment's state is the one that it started
/// from, a constant, and stays. dx, dw may be absent; each is set, or added to.
struct ConvolutionGradArgs {
  ConvolutionArgs forward;
  Tensor dy, dx, dw;
  bool accumulate_dx = false, accumulate_dw = false;
};
Cost cost(const ConvolutionGradArgs& args);
void convolution_grad(const ConvolutionGradArgs& args);

/// y[t, r C + c] = x[t + ahead - r, c]: x [N, C] -> y [N, taps C], states as above. `fold` is its transpose: dx[t, c]
/// (+)= sum_r dy[t - ahead + r, r C + c].
struct UnfoldArgs {
  Tensor x, y;
  int64_t taps = 1;
  std::vector<ConvolutionSegment> segments;
  int64_t ahead = 0;
};
Cost cost(const UnfoldArgs& args);
void unfold(const UnfoldArgs& args);
struct FoldArgs {
  Tensor dy, dx;
  int64_t taps = 1;
  std::vector<ConvolutionSegment> segments;
  int64_t ahead = 0;
  bool accumulate = false;
};
Cost cost(const FoldArgs& args);
void fold(const FoldArgs& args);

}  // namespace lithe::kernels
