// What cumulative_softmax.cpp hands to the vector kernels: addresses. Plain data only, so that nothing here is compiled
// per instruction set.
#pragma once

#include "lithe/kernels/cumulative_softmax/cumulative_softmax.h"

namespace lithe::kernels {

struct CumulativeSpan {
  int64_t row, rows;
  float* state;  // or null
};

/// One task is a head of a span; `space` [threads, 2, heads (value_dim + 2)] holds the sums of all heads.
struct CumulativeTask {
  const CumulativeSoftmaxArgs* args;
  const CumulativeSoftmaxGradArgs* grad_args;  // null in the forward pass
  const CumulativeSpan* spans;
  int64_t count, rows;  // spans, and the rows of all
  float* space;
};

}  // namespace lithe::kernels

LITHE_DECLARE_CPU(cumulative_softmax, CumulativeTask)
LITHE_DECLARE_CPU(cumulative_softmax_grad, CumulativeTask)
