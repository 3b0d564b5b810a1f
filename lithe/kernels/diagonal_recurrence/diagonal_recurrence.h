// Linear recurrences over time of every channel by itself: the core of linear chains, gated pooling and diagonal state
// spaces (spec rnn.linear, ssm.recurrent, ssm.diagonal).
#pragma once

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// Rows [row, row + rows) are one sequence or, with a `state` [C] f32 (f64 for f64), continue what it holds (zeros:
/// nothing) and bring it forward.
struct DiagonalSegment {
  int64_t row = 0, rows = 0;
  Tensor state;
};

/// y <- a y + b x for every channel, y = 0 before the first row of a segment. x, y [N, C], one type; a [C] or [N, C]
/// and b [C], which may be absent (1), in f32 (f64 for f64). `complex`: the first half of the columns holds real parts,
/// the second imaginary ones, of C / 2 channels. Rows that no segment covers are not written. Arithmetic in f32 for f32
/// and bf16. Results of a channel do not depend on others, nor those of a sequence on others or on how its rows are cut
/// into calls, to the bit.
struct DiagonalRecurrenceArgs {
  Tensor x, a, y;
  std::vector<DiagonalSegment> segments;
  bool complex = false;
  Tensor b = {};
};
Cost cost(const DiagonalRecurrenceArgs& args);
void diagonal_recurrence(const DiagonalRecurrenceArgs& args);

/// Gradients for the same arguments, with segments that cover all rows; a segment's state is the one that it started
/// from, a constant, and stays. dx is set, or added to; da and db, of the shapes of a and b, may be absent.
struct DiagonalRecurrenceGradArgs {
  DiagonalRecurrenceArgs forward;  // with y filled
  Tensor dy, dx, da, db;
  bool accumulate_dx = false, accumulate_da = false, accumulate_db = false;
};
Cost cost(const DiagonalRecurrenceGradArgs& args);
void diagonal_recurrence_grad(const DiagonalRecurrenceGradArgs& args);

}  // namespace lithe::kernels
