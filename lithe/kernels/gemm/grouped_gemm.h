// Products of rows in groups, each group with a matrix of its own: the experts of a mixture.
#pragma once

#include <vector>

#include "lithe/kernels/gemm/gemm.h"

namespace lithe::kernels {

/// Rows [offsets[g], offsets[g+1]) of c = those of a times op(b[g]) + bias[g] for every group g; groups may be empty.
/// a [R,K], c [R,N]; every b[g] [K,N] or, transposed, [N,K]; bias empty or one [N] a group; types as in GemmArgs. A
/// row's bits depend on nothing but the row and its matrix. Workspace is booked by R, however the rows are grouped.
struct GroupedGemmArgs {
  Tensor a, c;
  std::vector<Tensor> b, bias;
  const std::vector<int64_t>& offsets;
  bool transpose_b = false, accumulate = false;
};
/// As if the rows were spread over as many groups as they can be.
Cost cost(const GroupedGemmArgs& args);
void grouped_gemm(const GroupedGemmArgs& args);

/// c[g] [M,N] (+)= the rows of group g of a [R,M], transposed, times those of b [R,N]: gradients of the matrices.
/// accumulate[g] adds to c[g]; a group without rows gives zeros. c in f32 (f64 for f64).
struct GroupedGradArgs {
  Tensor a, b;
  std::vector<Tensor> c;
  std::vector<bool> accumulate;
  const std::vector<int64_t>& offsets;
};
Cost cost(const GroupedGradArgs& args);
void grouped_grad(const GroupedGradArgs& args);

}  // namespace lithe::kernels
