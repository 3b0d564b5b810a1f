// Linear recurrences over packed sequences: what linear attention, retention, gates, the delta rule and selective state
// spaces compute (kernels/linear_recurrence).
#pragma once

#include "lithe/autograd/var.h"
#include "lithe/kernels/linear_recurrence/linear_recurrence.h"
#include "lithe/ops/sequences.h"

namespace lithe {

struct RecurrenceOptions {
  int64_t heads = 1;
  double scale = 1;        // of sums without divisors
  bool normalise = false;  // divide by the sum of weights, which then must not be negative
  bool delta = false;      // write what the key does not give yet
  bool causal = true;      // else every row reads what all rows of its sequence wrote
};

/// q, k [N, heads*d_k], v [N, heads*d_v] -> [N, heads*d_v], as kernels::linear_recurrence says. log_decay (at most 0)
/// is undefined (no decay), [heads], [N, heads] or [N, heads*d_k], write undefined (1) or [N, heads], both f32 (f64 for
/// f64). `states` is empty, or sequence b continues what states[b] [heads, kernels::recurrence_state] f32 (f64 for f64)
/// sums up of its past rows, and brings it forward; gradients take it as a constant.
Var linear_recurrence(const Var& q, const Var& k, const Var& v, const Var& log_decay, const Var& write,
                      const Sequences& sequences, const RecurrenceOptions& options,
                      const std::vector<Tensor>& states = {});

}  // namespace lithe
