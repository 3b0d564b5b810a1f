#include "lithe/kernels/quantized_rows/quantized_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using testing_support::random_tensor;

struct Rounded {
  Tensor values, scales, back;
};

Rounded round_rows(const Tensor& x, int64_t groups) {
  const Rounded r{empty(x.shape(), DType::i8), empty({x.rows(), groups}, DType::f32), empty_like(x)};
  quantize_rows({.x = x, .values = r.values, .scales = r.scales});
  dequantize_rows({.values = r.values, .scales = r.scales, .out = r.back});
  return r;
}

// oracle: hpc.ptq
TEST(QuantizedRows, ErrAtMostHalfAStepAndAreIdempotent) {
  on_every_implementation([](const std::string& name) {
    for (DType dtype : kTypes)
      for (const auto& [groups, size] : {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {4, 64}, {2, 33}}) {
        SCOPED_TRACE(testing::Message() << name << " " << dtype << " " << groups << " x " << size);
        const Tensor x = random_tensor({7, groups * size}, dtype, 5);
        const Rounded r = round_rows(x, groups);
        for (int64_t g = 0; g < 7 * groups; ++g) {
          double most = 0;
          for (int64_t c = 0; c < size; ++c) most = std::max(most, std::abs(value_at(x, g * size + c)));
          const double scale = value_at(r.scales, g);
          // s is rounded twice (x to f32 where it is f64, and the division).
          EXPECT_NEAR(scale, most / 127, 2 * kF32 * most / 127);
          for (int64_t c = 0; c < size; ++c) {
            const double number = value_at(x, g * size + c);
            // Half a step, what the division by it may err at up to 127 steps, and the storage type of the result.
            const double bound = scale * (0.5 + 127 * 4 * kF32) + (epsilon_of(dtype) + kF32) * std::abs(number);
            EXPECT_NEAR(value_at(r.back, g * size + c), number, bound * 1.01);
            EXPECT_LE(std::abs(value_at(r.values, g * size + c)), 127);
          }
        }
        if (dtype == DType::bf16) continue;  // rounding to bf16 between moves the numbers
        const Rounded again = round_rows(r.back, groups);
        for (int64_t i = 0; i < x.numel(); ++i) EXPECT_EQ(value_at(again.values, i), value_at(r.values, i));
      }
  });
}

// oracle: hpc.ptq
TEST(QuantizedRows, WorkedExampleZerosAndNumbersThatAreNone) {
  on_every_implementation([](const std::string& name) {
    SCOPED_TRACE(name);
    const float none = std::numeric_limits<float>::quiet_NaN(), endless = std::numeric_limits<float>::infinity();
    const std::vector<float> numbers{-1, .4f, 1.27f, 0, 0, 0, 1, none, 2, 1, -endless, 2, 0x1p-120f, 0, 0};
    const Rounded r = round_rows(tensor_of({1, 15}, numbers), 5);
    EXPECT_NEAR(value_at(r.scales, 0), .01, 1e-9);
    for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(value_at(r.values, i), std::vector<double>({-100, 40, 127})[size_t(i)]);
    for (int64_t i = 3; i < 6; ++i) EXPECT_EQ(value_at(r.back, i), 0);
    for (int64_t i = 6; i < 12; ++i) EXPECT_TRUE(std::isnan(value_at(r.back, i))) << i;
    for (int64_t i = 12; i < 15; ++i) EXPECT_EQ(value_at(r.back, i), 0);
  });
}

TEST(QuantizedRows, ErrorsNameShapes) {
  const Tensor x = zeros({2, 6}, DType::f32);
  const auto error_of = [&](const Tensor& values, const Tensor& scales) -> std::string {
    try {
      quantize_rows({.x = x, .values = values, .scales = scales});
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  EXPECT_EQ(error_of(zeros({2, 5}, DType::i8), zeros({2, 2}, DType::f32)),
            "quantize_rows: values must be i8 like x [2,6], got i8[2,5]");
  EXPECT_EQ(error_of(zeros({2, 6}, DType::i8), zeros({2, 4}, DType::f32)),
            "quantize_rows: scales must be f32 [N, groups] to match x [2,6], got f32[2,4]");
}

}  // namespace
}  // namespace lithe::kernels
