// Attention with the weights of a Taylor polynomial (spec decon.approx).
#pragma once

#include "lithe/autograd/var.h"
#include "lithe/kernels/taylor_attention/taylor_attention.h"
#include "lithe/ops/sequences.h"

namespace lithe {

struct TaylorOptions {
  kernels::TaylorKind kind = kernels::TaylorKind::full;
  int64_t heads = 1;
  double scale = 0;  // 0: 1/sqrt(head_dim)
  bool causal = true;
};

/// q, k [N, heads*d_h], v [N, heads*d_v] -> [N, heads*d_v], as kernels::taylor_attention says. Fails where a sum of
/// weights vanishes (split); says once in the log that sums were clamped (diag).
Var attend_taylor(const Var& q, const Var& k, const Var& v, const Sequences& sequences, const TaylorOptions& options);

/// The same to another text: sequence b of q [N, heads*d_h] reads all rows of sequence b of k, v [S, ...]. Not causal.
Var attend_taylor(const Var& q, const Var& k, const Var& v, const Sequences& sequences, const Sequences& source,
                  const TaylorOptions& options);

/// The same for decoding, without gradients: sequence b continues what states[b] [heads, taylor_state] f32 (f64 for
/// f64) sums up of its past rows, and brings it forward.
Tensor attend_taylor_step(const Tensor& q, const Tensor& k, const Tensor& v, const Sequences& sequences,
                          const std::vector<Tensor>& states, const TaylorOptions& options);

/// What sums up sequence b of k, v [S, ...], all of it, for attend_taylor_read: [heads, taylor_state] of zeros becomes
/// its sums. Not causal.
void sum_up_taylor(const Tensor& k, const Tensor& v, const Sequences& source, const std::vector<Tensor>& states,
                   const TaylorOptions& options);
/// Rows of sequence b of q read what states[b] sums up of tokens[b] > 0 tokens, and leave it as it is: [N, heads*d_v].
Tensor attend_taylor_read(const Tensor& q, const Sequences& sequences, const std::vector<Tensor>& states,
                          const std::vector<int64_t>& tokens, const TaylorOptions& options);

}  // namespace lithe
