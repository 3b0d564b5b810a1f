// Convolutions along time, over packed sequences.
#pragma once

#include "lithe/autograd/var.h"
#include "lithe/kernels/convolution/convolution.h"
#include "lithe/ops/sequences.h"

namespace lithe {

/// y[t, c] = sum_r taps[r, c] x[t + ahead - r, c] along each sequence, zeros beyond it. x [N, C], taps [k, C] f32 (f64
/// for f64). `states` is empty, or sequence b continues states[b] [k - 1, C] f32 (f64 for f64), its last rows, and
/// brings it forward; gradients take it as a constant.
Var convolution(const Var& x, const Var& taps, const Sequences& sequences, int64_t ahead = 0,
                const std::vector<Tensor>& states = {});

/// The rows that `taps` taps reach, side by side: [N, C] -> [N, taps*C], x[t + ahead - r] in columns r C and on.
Var unfold(const Var& x, int64_t taps, const Sequences& sequences, int64_t ahead = 0,
           const std::vector<Tensor>& states = {});

}  // namespace lithe
