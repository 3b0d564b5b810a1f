// Matrix products, those of f64 by the reference.
#pragma once

#include "lithe/kernels/gemm/packed_matrix.h"
#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// c[M,N] = (accumulate ? c : 0) + op(a)[M,K] op(b)[K,N] + bias[N], where op transposes when asked:
/// a is [M,K] or, transposed, [K,M]; b is [K,N] or, transposed, [N,K].
/// dtypes (a, b -> c): f64 -> f64, f32 -> f32, bf16 -> bf16 or f32. bias: f32 (f64 for f64), optional.
/// `rowwise`: each row of c must have the same bits whatever M is and wherever the row stands
/// (inference: a sequence's result must not depend on what it is batched with).
/// `packed`: numbers of a's dtype in place of b, [K,N] by its shape or, transposed (by_rows), [N,K]; rowwise, and with
/// the bits that b would give.
struct GemmArgs {
  Tensor a, b, c, bias;
  bool transpose_a = false, transpose_b = false, accumulate = false, rowwise = false;
  const PackedMatrix* packed = nullptr;
};
Cost cost(const GemmArgs& args);
void gemm(const GemmArgs& args);

}  // namespace lithe::kernels
