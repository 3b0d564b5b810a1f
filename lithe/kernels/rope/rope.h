// Rotary positions (spec pos.rope): pairs of each head's channels turn by position * base^(-2c/d_h).
#pragma once

#include <memory>
#include <vector>

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// out[n, head, :] = rotate(x[n, head, :], positions[n]). x, out [N, heads*head_dim]; positions i32 [N].
/// `interleaved`: pairs (2c, 2c+1); otherwise pairs (c, c+d_h/2). `inverse` turns back (the gradient).
/// out may be x; `accumulate` adds to out. `rotary_dim` (0: head_dim): only so many channels of a head turn, paired
/// among themselves, with d_h = rotary_dim in the frequencies; the others stay. `frequencies` [rotary_dim / 2]: angles
/// a position, in place of those of `base`.
struct RopeArgs {
  Tensor x, positions, out;
  int64_t head_dim = 0;
  double base = 10000;
  bool interleaved = false, inverse = false, accumulate = false;
  int64_t rotary_dim = 0;
  std::shared_ptr<const std::vector<double>> frequencies = nullptr;
  int64_t turned() const { return rotary_dim ? rotary_dim : head_dim; }
};
Cost cost(const RopeArgs& args);
void rope(const RopeArgs& args);

}  // namespace lithe::kernels
