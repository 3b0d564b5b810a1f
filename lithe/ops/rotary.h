// Rotary positions that turn some channels, by frequencies of their own.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lithe/autograd/var.h"

namespace lithe {

/// Which channels of a head turn, and how fast; see kernels::RopeArgs.
struct Rotation {
  int64_t head_dim = 0;
  double base = 10000;
  bool interleaved = false;
  int64_t rotary_dim = 0;                                            // 0: head_dim
  std::shared_ptr<const std::vector<double>> frequencies = nullptr;  // null: base^(-2c/rotary_dim)
};

/// How frequencies are changed for texts longer than those of the first training; the fields of position rotary.
struct RotaryScaling {
  std::string scaling = "none";
  double factor = 1, low_freq_factor = 1, high_freq_factor = 4, beta_fast = 32, beta_slow = 1;
  int64_t original_max_position_embeddings = 0;
  bool truncate = true;  // yarn: the channels where the change begins and ends are whole numbers
  std::vector<double> frequency_factors;
};
/// Angles a position of the pairs of `channels` channels [channels / 2].
std::vector<double> rotary_frequencies(double base, int64_t channels, const RotaryScaling& how);

/// Rotates each head's channels by the row's position. x [N, heads*head_dim], positions i32 [N].
Var rotate(const Var& x, const Tensor& positions, const Rotation& how);

}  // namespace lithe
