// What linear_recurrence.cpp prepares for the kernels of every instruction set: addresses and places in the workspace.
// Plain data only, so that nothing here is compiled per set.
#pragma once

#include "lithe/kernels/linear_recurrence/linear_recurrence.h"

namespace lithe::kernels {

constexpr int64_t kRecurrenceRows = 32;  // that are widened and scanned at once

struct RecurrenceSpan {
  int64_t row, rows;
  float* state;  // [heads, recurrence_state], or null
};

/// The factors on a state: none, one a head, one a row and head, one a row and each row of the state.
enum class RecurrenceDecay { none, constant, scalar, channels };

/// Where things lie in a part's workspace, in floats. Rows of keys and values are `k_row` and `v_row` long; those of
/// values that the divisors join `x_row`.
struct RecurrenceSpace {
  int64_t k_row, v_row, x_row;
  int64_t state, sums, q, k, v, dout, out, gates;  // blocks of rows
  int64_t shifted_k, shifted_v, terms, errors, writes,
      reads;       // gradient: terms and below have a row for each of a segment
  int64_t floats;  // of a part
};

/// One task is a head of a span.
struct RecurrenceCall {
  const LinearRecurrenceArgs* args;
  const LinearRecurrenceGradArgs* grad_args;  // null in the forward pass
  RecurrenceDecay decay;
  const RecurrenceSpan* spans;
  int64_t count, grain;  // spans; tasks that are worth a thread
  RecurrenceSpace space;
  float* workspace;   // [threads, space.floats], 64-byte aligned
  double* constants;  // [spans, heads]: gradients of constant decays
};

}  // namespace lithe::kernels

LITHE_DECLARE_CPU(linear_recurrence_forward, RecurrenceCall)
LITHE_DECLARE_CPU(linear_recurrence_backward, RecurrenceCall)
