// Comparison of tensors within computed bounds, seeded inputs, and gradients by differences.
#pragma once

#include <functional>
#include <string>

#include "lithe/tensor/tensor.h"

namespace lithe::testing_support {

/// Standard normal numbers times `scale`, rounded to `dtype`; a pure function of the seed.
Tensor random_tensor(Shape shape, DType dtype, uint64_t seed, double scale = 1);

/// i32 numbers in [low, high); a pure function of the seed.
Tensor random_ints(Shape shape, int64_t low, int64_t high, uint64_t seed);

/// Every element of `actual` must lie within `bound` of `expected` (NaN only with NaN, an infinity only with
/// itself). A failure names `what`, the worst element, both values, the bound and the seeds that
/// random_tensor was last asked for.
void expect_close(const Tensor& actual, const Tensor& expected, double bound, const std::string& what);

/// The same with a bound for each element.
void expect_close(const Tensor& actual, const Tensor& expected, const std::function<double(int64_t)>& bound,
                  const std::string& what);

/// Both hold the same bits.
void expect_same_bits(const Tensor& actual, const Tensor& expected, const std::string& what);

/// A tensor [rows, ...] with a row of sentinels before and after it, to catch writes outside of it.
class Guarded {
 public:
  explicit Guarded(const Tensor& values);
  const Tensor& tensor() const { return inner_; }
  /// The sentinels are as they were.
  void expect_untouched(const std::string& what) const;

 private:
  Tensor whole_, inner_, before_;
};

/// d f / d x[i] for every i by central differences; f reads the f64 tensor x, which is changed and put back.
Tensor numeric_gradient(const Tensor& x, const std::function<double()>& f, double step = 1e-5);

/// Every element of the gradient agrees with central differences of f to 1e-6 of the largest (oracle G).
void expect_gradient(const Tensor& gradient, const Tensor& x, const std::function<double()>& f,
                     const std::string& what);

}  // namespace lithe::testing_support
