// Linear recurrences over time with a matrix for a state: the core of linear attention, retention, gated and delta-rule
// mixers, and selective state spaces (spec kernel.linear, linattn.decay, linattn.gated, linattn.delta).
#pragma once

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// Rows [row, row + rows) are one sequence or, with a `state` [heads, recurrence_state] f32 (f64 for f64), continue
/// what it sums up (zeros: nothing) and bring it forward.
struct RecurrenceSegment {
  int64_t row = 0, rows = 0;
  Tensor state;
};
/// Scalars of a head's state: S [key_dim, value_dim], then, normalised, n [key_dim].
constexpr int64_t recurrence_state(int64_t key_dim, int64_t value_dim, bool normalise) {
  return key_dim * (value_dim + normalise);
}

/// Head by head and row by row of a segment, with a = e^log_decay, b = write, S = 0 and n = 0 at first (column vectors
/// of the state's rows times row vectors of values):
///   S <- a S + b k^T v          delta: S <- a S + b k^T (v - k (a S))
///   n <- a n + b k
///   out = scale q S             normalised: out = q S / d, d = q n, plus `floor` where q n < floor
/// Not causal: S and n are those after the last row of the segment, for all its rows; without decay, delta and states.
///
/// q, k [N, heads*key_dim], v, out [N, heads*value_dim]. log_decay, at most 0, is none (a = 1), [heads], [N, heads] or
/// [N, heads*key_dim] (one for each row of S); write is none (b = 1) or [N, heads]; divisors [N, heads], given when
/// normalised, receives d. These are f32 (f64 for f64). Rows that no segment covers are not written. States and sums
/// are f32 for f32 and bf16. Results of a sequence do not depend on the other segments, nor on how its rows are cut
/// into calls, to the bit.
struct LinearRecurrenceArgs {
  Tensor q, k, v, out, log_decay, write, divisors;
  std::vector<RecurrenceSegment> segments;
  int64_t heads = 1, key_dim = 0, value_dim = 0;
  double scale = 1, floor = 1e-6;
  bool normalise = false, delta = false, causal = true;
};
Cost cost(const LinearRecurrenceArgs& args);
void linear_recurrence(const LinearRecurrenceArgs& args);

/// Gradients for the same arguments, with segments that cover all rows; a segment's state is the one that it started
/// from, a constant, and stays. States are computed again, none is kept. Each gradient is set, or added to when its
/// flag says so; dlog_decay and dwrite may be absent.
struct LinearRecurrenceGradArgs {
  LinearRecurrenceArgs forward;  // with out and, normalised, divisors filled
  Tensor dout, dq, dk, dv, dlog_decay, dwrite;
  bool accumulate_dq = false, accumulate_dk = false, accumulate_dv = false, accumulate_dlog_decay = false,
       accumulate_dwrite = false;
};
Cost cost(const LinearRecurrenceGradArgs& args);
void linear_recurrence_grad(const LinearRecurrenceGradArgs& args);

}  // namespace lithe::kernels
