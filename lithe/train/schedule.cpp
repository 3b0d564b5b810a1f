#include "lithe/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lithe/base/error.h"

namespace lithe {

// spec: train.lr_inv_sqrt | schedule | inverse square root with warm-up; also linear, cosine, cosine_restarts, wsd,
// constant | TB Eq 6.48
double Schedule::at(int64_t step) const {
  check(step >= 1, "schedule", "steps count from 1, got ", step);
  const double n = double(step), w = double(warmup);
  if (type == "inverse_sqrt") {
    // lr0 min(n^-1/2, n w^-3/2): continuous, highest at n = w
    return w > 0 ? peak * std::min(1 / std::sqrt(n), n / (w * std::sqrt(w))) : peak / std::sqrt(n);
  }
  if (step <= warmup) return peak * n / w;
  if (type == "constant") return peak;
  const double end = double(std::max(total, warmup + 1));
  double progress = std::clamp((n - w) / (end - w), 0.0, 1.0);
  if (type == "linear") return floor + (peak - floor) * (1 - progress);
  if (type == "cosine") return floor + (peak - floor) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
  if (type == "cosine_restarts") {
    const double cycles = progress * double(restarts);
    const double within = progress >= 1 ? 1 : cycles - std::floor(cycles);
    return floor + (peak - floor) * 0.5 * (1 + std::cos(std::numbers::pi * within));
  }
  check(type == "wsd", "schedule", "unknown type '", type, "'");
  const double start = end * (1 - decay_ratio);
  return n <= start ? peak : floor + (peak - floor) * std::clamp((end - n) / std::max(end - start, 1.0), 0.0, 1.0);
}

}  // namespace lithe
