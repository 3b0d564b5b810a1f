// The discrete Fourier transform of short frames of any length, in double: 400 samples of speech are no power of two.
#pragma once

#include <complex>
#include <vector>

#include "lithe/base/error.h"

namespace lithe {

/// Cooley and Tukey's splitting by the prime factors of n [1965].
class FrameTransform {
 public:
  explicit FrameTransform(size_t n);
  size_t size() const { return n_; }
  /// y[k] = sum_t x[t] exp(-2 pi i k t / n); x and y hold n numbers each and are not one.
  void operator()(const std::complex<double>* x, std::complex<double>* y) const { run(x, y, n_, 1, 0); }

 private:
  size_t n_;
  std::vector<size_t> factors_;
  std::vector<std::complex<double>> turns_;  // exp(-2 pi i k / n)

  void run(const std::complex<double>* x, std::complex<double>* y, size_t n, size_t stride, size_t factor) const;
};

}  // namespace lithe
