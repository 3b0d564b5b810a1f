// Sums of numbers that are known by their logarithms.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace lithe {

/// log 0.
inline constexpr double kNever = -std::numeric_limits<double>::infinity();

/// log(e^a + e^b).
inline double log_add(double a, double b) {
  const double high = std::max(a, b), low = std::min(a, b);
  return high == kNever ? high : high + std::log1p(std::exp(low - high));
}

}  // namespace lithe
