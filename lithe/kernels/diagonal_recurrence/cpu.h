// What diagonal_recurrence.cpp hands to the vector kernels: plain data only, so that nothing here is compiled per
// instruction set.
#pragma once

#include "lithe/kernels/diagonal_recurrence/diagonal_recurrence.h"

namespace lithe::kernels {

struct DiagonalSpan {
  int64_t row, rows;
  float* state;  // or null
};
struct DiagonalCall {
  const DiagonalRecurrenceArgs* args;
  const DiagonalRecurrenceGradArgs* grad_args;  // null in the forward pass
  const DiagonalSpan* spans;
  int64_t count, rows;  // spans, and the rows of all
};

}  // namespace lithe::kernels

LITHE_DECLARE_CPU(diagonal_recurrence, DiagonalCall)
LITHE_DECLARE_CPU(diagonal_recurrence_grad, DiagonalCall)
