// Weighting rows by themselves: products of each row's own query and key, and softmax weights that all queries share
// (spec decon.nonapprox).
#pragma once

#include "lithe/autograd/var.h"
#include "lithe/ops/sequences.h"

namespace lithe {

/// s[n, head] = scale a[n, head, :] . b[n, head, :]. a, b [N, heads*d_h] -> [N, heads] f32 (f64 for f64).
Var head_dot(const Var& a, const Var& b, int64_t heads, double scale = 1);

/// sum_j e^s[j,head] v[j,head,:] / sum_j e^s[j,head] over the rows of the same sequence: those up to each row when
/// `causal`, otherwise all. s [N, heads] f32 (f64 for f64), v [N, heads*d_v] -> [N, heads*d_v].
Var cumulative_softmax(const Var& s, const Var& v, const Sequences& sequences, bool causal);

/// The same for decoding, without gradients: sequence b continues what states[b] [heads, d_v + 2] f32 (f64 for f64)
/// remembers (zeros: nothing) and brings it forward.
Tensor cumulative_softmax_step(const Tensor& s, const Tensor& v, const Sequences& sequences,
                               const std::vector<Tensor>& states);

}  // namespace lithe
