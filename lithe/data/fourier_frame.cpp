#include "lithe/data/fourier_frame.h"

#include <cmath>
#include <numbers>

namespace lithe {

FrameTransform::FrameTransform(size_t n) : n_(n) {
  check(n > 0, "fourier", "a frame of no samples");
  for (size_t p = 2, rest = n; rest > 1; ++p)
    for (; rest % p == 0; rest /= p) factors_.push_back(p);
  for (size_t k = 0; k < n; ++k) {
    const double angle = 2 * std::numbers::pi * double(k) / double(n);
    turns_.emplace_back(std::cos(angle), -std::sin(angle));
  }
}

// Transforms n samples that stand `stride` apart: p transforms of n / p, joined.
void FrameTransform::run(const std::complex<double>* x, std::complex<double>* y, size_t n, size_t stride,
                         size_t factor) const {
  if (n == 1) {
    y[0] = x[0];
    return;
  }
  const size_t p = factors_[factor], m = n / p;
  for (size_t j = 0; j < p; ++j) run(x + j * stride, y + j * m, m, stride * p, factor + 1);
  std::vector<std::complex<double>> part(p);
  for (size_t k = 0; k < m; ++k) {
    for (size_t j = 0; j < p; ++j) part[j] = y[j * m + k] * turns_[j * k * stride % n_];
    if (p == 2) {
      y[k] = part[0] + part[1], y[m + k] = part[0] - part[1];
      continue;
    }
    for (size_t q = 0; q < p; ++q) {
      std::complex<double> sum = part[0];
      for (size_t j = 1; j < p; ++j) sum += part[j] * turns_[j * q % p * m * stride];
      y[q * m + k] = sum;
    }
  }
}

}  // namespace lithe
