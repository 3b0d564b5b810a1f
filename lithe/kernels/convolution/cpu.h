// What convolution.cpp hands to the vector kernels: plain data only, so that nothing here is compiled per instruction
// set.
#pragma once

#include "lithe/kernels/convolution/convolution.h"

namespace lithe::kernels {

struct ConvolutionSpan {
  int64_t row, rows;
  float* state;  // [taps - 1, C], or null
};
/// x, y: rows that are read and written; dy, dx, dw of the gradient, null in the forward pass.
struct ConvolutionCall {
  enum Kind { depthwise, gradient, unfold, fold } kind;
  DType dtype;
  const void *x, *dy;
  const float* w;
  void *y, *dx;
  float* dw;
  const ConvolutionSpan* spans;
  int64_t count, rows;  // spans, and the rows of all
  int64_t channels, taps, ahead;
  bool accumulate_dx, accumulate_dw;
  Cost work;
  void (*reference)(const void* args);
  const void* args;
};
inline Cost cost(const ConvolutionCall& call) { return call.work; }

}  // namespace lithe::kernels

LITHE_DECLARE_CPU(convolution, ConvolutionCall)
