// Linear recurrences of every channel by itself, over packed sequences.
#pragma once

#include "lithe/autograd/var.h"
#include "lithe/kernels/diagonal_recurrence/diagonal_recurrence.h"
#include "lithe/ops/sequences.h"

namespace lithe {

/// y <- a y + b x along each sequence. x [N, C], a [C] or [N, C], b [C] or undefined (1), f32 (f64 for f64); `complex`:
/// real parts, then imaginary ones. `states` is empty, or sequence b continues states[b] [C] f32 (f64 for f64) and
/// brings it forward; gradients take it as a constant.
Var diagonal_recurrence(const Var& x, const Var& a, const Var& b, const Sequences& sequences, bool complex = false,
                        const std::vector<Tensor>& states = {});

}  // namespace lithe
