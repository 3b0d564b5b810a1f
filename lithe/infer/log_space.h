// Sums of numbers that are known by their logarithms.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace lithe {

/// log 0.
inline constexpr double kNever = -std::numeric_limits<double>::infinity();

/// log(e^a + e^b).
inline double log_add(double a, double b) {
  const double high = std::max(a, b), low = std::min(a, b);
  return high == kNever ? high : high + std::log1p(std::exp(low - high));
}

/// Makes logarithms those of probabilities that sum to 1. Where none is finite, nothing changes, and it says so: false.
inline bool log_normalise(std::span<double> logarithms) {
  double most = kNever, sum = 0;
  for (const double x : logarithms) most = std::max(most, x);
  for (const double x : logarithms) sum += std::exp(x - most);
  if (!std::isfinite(most) || !std::isfinite(sum)) return false;
  for (double& x : logarithms) x -= most + std::log(sum);
  return true;
}

}  // namespace lithe
