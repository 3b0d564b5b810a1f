// What taylor_attention.cpp prepares for the kernels of every instruction set: addresses, tasks and places in the
// workspace. Plain data only, so that nothing here is compiled per set.
#pragma once

#include "lithe/kernels/taylor_attention/taylor_attention.h"

namespace lithe::kernels {

/// q, k, v and their like at the segment's first row or key, head 0.
struct TaylorSpan {
  const void *q, *k, *v, *dout;
  void *out, *dq, *dk, *dv;
  float *sums, *state;
  int64_t rows, keys, past;
  bool own_keys;  // keys are the rows themselves
};

/// Queries [begin, end) of one head; with a state, and in the gradient, all of them (none where keys enter a state).
struct TaylorTask {
  int64_t span, head, begin, end;
};

/// Where things lie in a part's workspace, in floats.
struct TaylorSpace {
  int64_t q, q2, sums, stats, x, z, g;                             // panels and tiles
  int64_t k, k2, v;                                                // rows of a tile; in the gradient of a whole segment
  int64_t features, values;                                        // of kTaylorRows rows that enter a state
  int64_t dout, q_rows, q2_rows, dout_rows, dq, dq2, dk, dk2, dv;  // gradient
  int64_t floats;                                                  // of a part
};
constexpr int64_t kTaylorRows = 8;

struct TaylorCall {
  const TaylorArgs* args;
  const TaylorGradArgs* grad_args;  // null in the forward pass
  TaylorKind kind;
  DType dtype;
  int64_t heads, head_dim, value_dim, features, state_floats;
  int64_t chunk;  // rows that enter a state at once
  float scale;
  bool causal;
  const TaylorSpan* spans;
  const TaylorTask* tasks;
  int64_t count;  // tasks
  TaylorSpace space;
  float* workspace;  // [threads, space.floats], 64-byte aligned
};

}  // namespace lithe::kernels

LITHE_DECLARE_CPU(taylor_forward, TaylorCall)
LITHE_DECLARE_CPU(taylor_backward, TaylorCall)
