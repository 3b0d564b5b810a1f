#include "tests/support/close.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "lithe/base/random.h"

namespace lithe::testing_support {
namespace {

std::vector<uint64_t>& recent_seeds() {
  static std::vector<uint64_t> seeds;
  return seeds;
}

void remember(uint64_t seed) {
  auto& seeds = recent_seeds();
  seeds.push_back(seed);
  if (seeds.size() > 8) seeds.erase(seeds.begin());
}

std::string seeds_text() {
  std::string text;
  for (uint64_t seed : recent_seeds()) text += (text.empty() ? "" : " ") + std::to_string(seed);
  return text;
}

// Infinite when only one of both is NaN or when infinities differ.
double distance(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : INFINITY;
  return a == b ? 0 : std::abs(a - b);
}

}  // namespace

Tensor random_tensor(Shape shape, DType dtype, uint64_t seed, double scale) {
  remember(seed);
  const Tensor x = empty(shape, dtype);
  for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, scale * random_normal({.seed = seed}, uint64_t(i)));
  return x;
}

Tensor random_ints(Shape shape, int64_t low, int64_t high, uint64_t seed) {
  remember(seed);
  const Tensor x = empty(shape, DType::i32);
  for (int64_t i = 0; i < x.numel(); ++i)
    set_value(x, i, double(low + int64_t(random_below({.seed = seed}, uint64_t(i), uint64_t(high - low)))));
  return x;
}

void expect_close(const Tensor& actual, const Tensor& expected, double bound, const std::string& what) {
  expect_close(
      actual, expected, [bound](int64_t) { return bound; }, what);
}

void expect_close(const Tensor& actual, const Tensor& expected, const std::function<double(int64_t)>& bound,
                  const std::string& what) {
  ASSERT_EQ(actual.numel(), expected.numel()) << what;
  int64_t worst = -1, failures = 0;
  double worst_ratio = 0;
  for (int64_t i = 0; i < actual.numel(); ++i) {
    const double off = distance(value_at(actual, i), value_at(expected, i)), allowed = bound(i);
    if (off <= allowed) continue;
    ++failures;
    const double ratio = allowed > 0 ? off / allowed : INFINITY;
    if (worst < 0 || ratio > worst_ratio) worst = i, worst_ratio = ratio;
  }
  if (failures == 0) return;
  ADD_FAILURE() << what << ": " << failures << " of " << actual.numel() << " elements of " << actual.dtype()
                << actual.shape() << " are out of bounds; worst element " << worst << ": got "
                << cat(value_at(actual, worst)) << ", expected " << value_at(expected, worst) << ", off by "
                << distance(value_at(actual, worst), value_at(expected, worst)) << ", bound " << bound(worst)
                << "; seeds " << seeds_text();
}

void expect_same_bits(const Tensor& actual, const Tensor& expected, const std::string& what) {
  ASSERT_EQ(actual.dtype(), expected.dtype()) << what;
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  const auto *a = static_cast<const std::byte*>(actual.raw()), *b = static_cast<const std::byte*>(expected.raw());
  for (int64_t i = 0, size = size_of(actual.dtype()); i < actual.numel(); ++i)
    if (std::memcmp(a + i * size, b + i * size, size_t(size)) != 0) {
      ADD_FAILURE() << what << ": element " << i << " differs: " << value_at(actual, i) << " and "
                    << value_at(expected, i) << "; seeds " << seeds_text();
      return;
    }
}

Guarded::Guarded(const Tensor& values) {
  const Shape& s = values.shape();
  std::vector<int64_t> sizes;
  for (int i = 0; i < s.rank(); ++i) sizes.push_back(s[i]);
  sizes[0] += 2;
  whole_ = empty(Shape(sizes), values.dtype());
  for (int64_t i = 0; i < whole_.numel(); ++i) set_value(whole_, i, 77 + double(i % 5));
  inner_ = whole_.slice(1, sizes[0] - 1);
  copy_into(inner_, values);
  before_ = clone(whole_);
}

void Guarded::expect_untouched(const std::string& what) const {
  const int64_t rows = whole_.dim(0);
  expect_same_bits(whole_.slice(0, 1), before_.slice(0, 1), what + ": before the first row");
  expect_same_bits(whole_.slice(rows - 1, rows), before_.slice(rows - 1, rows), what + ": after the last row");
}

Tensor numeric_gradient(const Tensor& x, const std::function<double()>& f, double step) {
  check(x.dtype() == DType::f64, "numeric_gradient", "x must be f64, got ", x.dtype());
  const Tensor gradient = empty_like(x);
  for (int64_t i = 0; i < x.numel(); ++i) {
    double& v = x.data<double>()[i];
    const double kept = v;
    v = kept + step;
    const double above = f();
    v = kept - step;
    const double below = f();
    v = kept;
    set_value(gradient, i, (above - below) / (2 * step));
  }
  return gradient;
}

void expect_gradient(const Tensor& gradient, const Tensor& x, const std::function<double()>& f,
                     const std::string& what) {
  const Tensor numeric = numeric_gradient(x, f);
  double largest = 0;
  for (int64_t i = 0; i < numeric.numel(); ++i) largest = std::max(largest, std::abs(value_at(numeric, i)));
  EXPECT_GT(largest, 0) << what << ": the gradient is zero everywhere, so this shows nothing";
  expect_close(gradient, numeric, 1e-6 * largest, what);
}

}  // namespace lithe::testing_support
