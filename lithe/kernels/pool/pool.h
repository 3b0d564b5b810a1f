// Sequences to one row each: the mean or the largest of their rows.
#pragma once

#include <vector>

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

enum class Pooling { mean, max };

/// out[b] of x's rows [offsets[b], offsets[b+1]), column by column: x [N,C], out [B,C]; no sequence is empty. For max,
/// `rows` i32 [B,C] receives the row that each value is of, the first of equal ones.
struct PoolArgs {
  Tensor x, out, rows;
  const std::vector<int64_t>& offsets;
  Pooling kind = Pooling::mean;
};
Cost cost(const PoolArgs& args);
void pool(const PoolArgs& args);

/// dx [N,C] (+)= the gradient of x, of dout [B,C].
struct PoolGradArgs {
  Tensor dout, rows, dx;
  const std::vector<int64_t>& offsets;
  Pooling kind = Pooling::mean;
  bool accumulate = false;
};
Cost cost(const PoolGradArgs& args);
void pool_grad(const PoolGradArgs& args);

}  // namespace lithe::kernels
