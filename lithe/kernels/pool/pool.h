// Sequences of rows to one row each: the mean or the largest of their rows.
#pragma once

#include <span>
#include <vector>

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

enum class Pooling { mean, max };

/// out[b] of the rows that sequence b reads, column by column: x [N,C], out [B,C]; no sequence is empty. Place i of
/// [offsets[b], offsets[b+1]) is row i of x or, where `from` is given, row from[i] (any row, as often as wanted). For
/// max, `rows` i32 [B,C] receives the row of x that each value is of, the first of equal ones.
struct PoolArgs {
  Tensor x, out, rows;
  const std::vector<int64_t>& offsets;
  Pooling kind = Pooling::mean;
  std::span<const int64_t> from{};
};
Cost cost(const PoolArgs& args);
void pool(const PoolArgs& args);

/// dx [N,C] (+)= the gradient of x, of dout [B,C], added up in the order of the sequences.
struct PoolGradArgs {
  Tensor dout, rows, dx;
  const std::vector<int64_t>& offsets;
  Pooling kind = Pooling::mean;
  bool accumulate = false;
  std::span<const int64_t> from{};
  /// Set by pool_grad(): row n of x is read by the sequences readers[i], i of [reader_offsets[n], reader_offsets[n+1]).
  const int64_t *reader_offsets = nullptr, *readers = nullptr;
};
Cost cost(const PoolGradArgs& args);
void pool_grad(const PoolGradArgs& args);

}  // namespace lithe::kernels
