#include "lithe/kernels/columns/columns.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using namespace lithe::testing_support;

Tensor mapped(ColumnMap map, const Tensor& x, DType dtype = DType::f64) {
  const Tensor y = empty(x.shape(), dtype);
  map_columns({map, x, y});
  return y;
}

TEST(MapColumns, SoftmaxIsPositiveAndSumsToOne) {
  const Tensor x = random_tensor({13, 5}, DType::f64, 1, 300),
               y = mapped(ColumnMap::softmax, x);  // e^300 overflows f32
  for (int64_t c = 0; c < 5; ++c) {
    double sum = 0;
    for (int64_t r = 0; r < 13; ++r) {
      EXPECT_GE(value_at(y, r * 5 + c), 0);
      sum += value_at(y, r * 5 + c);
      if (value_at(y, r * 5 + c) > 1e-300 && value_at(y, c) > 1e-300) {
        const double difference = value_at(x, r * 5 + c) - value_at(x, c);
        EXPECT_NEAR(std::log(value_at(y, r * 5 + c) / value_at(y, c)), difference,
                    1e-13 * (1 + 2 * std::abs(difference)));
      }
    }
    EXPECT_NEAR(sum, 1, 13 * 0x1p-53);
  }
}

TEST(MapColumns, StandardizedColumnsHaveNoMeanAndUnitNorm) {
  const Tensor x = random_tensor({40, 3}, DType::f64, 2), y = mapped(ColumnMap::standardize, x);
  for (int64_t c = 0; c < 3; ++c) {
    double sum = 0, squares = 0;
    for (int64_t r = 0; r < 40; ++r) sum += value_at(y, r * 3 + c), squares += std::pow(value_at(y, r * 3 + c), 2);
    EXPECT_NEAR(sum, 0, 80 * 0x1p-53);
    EXPECT_NEAR(squares, 1, 80 * 0x1p-53);
  }
  for (int64_t r = 0; r < 40; ++r) set_value(x, r * 3 + 1, 0.5);
  const Tensor constant = mapped(ColumnMap::standardize, x);
  for (int64_t r = 0; r < 40; ++r) EXPECT_EQ(value_at(constant, r * 3 + 1), 0);
}

TEST(MapColumns, NarrowerTypesAreTheSameRounded) {
  for (const ColumnMap map : {ColumnMap::softmax, ColumnMap::standardize})
    for (const DType from : kTypes)
      for (const DType to : kTypes) {
        const Tensor x = random_tensor({9, 4}, from, 3), exact = mapped(map, convert(x, DType::f64));
        expect_same_bits(mapped(map, x, to), convert(exact, to), cat(from, "->", to));
      }
}

TEST(MapColumnsGrad, IsTheGradientAndAccumulates) {
  for (const ColumnMap map : {ColumnMap::softmax, ColumnMap::standardize}) {
    const Tensor x = random_tensor({6, 3}, DType::f64, 4), dy = random_tensor({6, 3}, DType::f64, 5),
                 dx = zeros({6, 3}, DType::f64), twice = zeros({6, 3}, DType::f64);
    map_columns_grad({map, x, dy, dx});
    expect_gradient(
        dx, x,
        [&] {
          const Tensor y = mapped(map, x);
          double sum = 0;
          for (int64_t i = 0; i < y.numel(); ++i) sum += value_at(y, i) * value_at(dy, i);
          return sum;
        },
        cat("map ", int(map)));
    for (int pass = 0; pass < 2; ++pass) map_columns_grad({map, x, dy, twice});
    for (int64_t i = 0; i < dx.numel(); ++i) EXPECT_EQ(value_at(twice, i), 2 * value_at(dx, i));
  }
}

// Below the clamp the map is linear: (x - mean x) / 1e-8.
TEST(MapColumnsGrad, TheClampedNormIsAConstant) {
  const Tensor x = zeros({4, 1}, DType::f64), dy = random_tensor({4, 1}, DType::f64, 6), dx = zeros({4, 1}, DType::f64);
  for (int64_t r = 0; r < 4; ++r) set_value(x, r, 1e-9 * double(r));
  map_columns_grad({ColumnMap::standardize, x, dy, dx});
  double mean = 0;
  for (int64_t r = 0; r < 4; ++r) mean += value_at(dy, r) / 4;
  for (int64_t r = 0; r < 4; ++r)
    EXPECT_NEAR(value_at(dx, r), (value_at(dy, r) - mean) / 1e-8, 8 * 0x1p-53 * 1e8 * (1 + std::abs(value_at(dy, r))));
}

TEST(MapColumns, RefusesWhatDoesNotFit) {
  try {
    map_columns({ColumnMap::softmax, zeros({2, 3}, DType::f32), zeros({3, 2}, DType::f32)});
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("map_columns: y must have the shape and device of x f32[2,3], got y f32[3,2]"),
              std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace lithe::kernels
