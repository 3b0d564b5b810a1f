#include "lithe/kernels/int4_rows/int4_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/sweep.h"
#include "tests/support/close.h"

namespace lithe::kernels {
namespace {

using testing_support::expect_same_bits;
using testing_support::random_tensor;

struct Rounded {
  Tensor codes, scales, back;
};

Rounded round_rows(const Tensor& x, int64_t heads) {
  const Int4Rows of{heads, x.cols() / heads};
  const Rounded r{empty({x.rows(), of.bytes()}, DType::u8), empty({x.rows(), of.scales()}, DType::bf16), empty_like(x)};
  quantize_int4_rows({.x = x, .codes = r.codes, .scales = r.scales, .heads = heads});
  dequantize_int4_rows({.codes = r.codes, .scales = r.scales, .out = r.back, .heads = heads});
  return r;
}

// oracle: hpc.ptq
TEST(Int4Rows, ErrAtMostHalfAStep) {
  on_every_implementation([](const std::string& name) {
    for (DType dtype : kTypes)
      for (const auto& [heads, size] : {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {4, 64}, {2, 33}, {1, 47}})
        for (const double offset : {0.0, 1000.0, -3.0}) {
          SCOPED_TRACE(testing::Message() << name << " " << dtype << " " << heads << " x " << size << " + " << offset);
          Tensor x = random_tensor({7, heads * size}, dtype, 5);
          for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, value_at(x, i) + offset);
          const Rounded r = round_rows(x, heads);
          int64_t group = 0;
          for (int64_t head = 0; head < 7 * heads; ++head)
            for (int64_t at = 0; at < size; at += Int4Rows::kGroup, ++group) {
              const int64_t n = std::min(Int4Rows::kGroup, size - at), first = head * size + at;
              double least = value_at(x, first), most = least;
              for (int64_t c = 0; c < n; ++c) {
                least = std::min(least, value_at(x, first + c)), most = std::max(most, value_at(x, first + c));
              }
              const double low = value_at(r.scales, 2 * group), step = value_at(r.scales, 2 * group + 1);
              EXPECT_LE(low, least + kF32 * std::abs(least));
              EXPECT_GE(low, least - 0x1p-7 * std::abs(least));
              const double slack = 4 * kF32 * std::max(std::abs(least), std::abs(most));  // of f64 made f32
              EXPECT_GE(15 * step, (most - low) * (1 - 4 * kF32) - slack);
              EXPECT_LE(15 * step, (most - low) * (1 + 0x1p-7) * (1 + 4 * kF32) + 2 * slack);
              for (int64_t c = 0; c < n; ++c) {
                const double number = value_at(x, first + c);
                const double bound = step * (0.5 + 32 * kF32) + (epsilon_of(dtype) + 2 * kF32) * std::abs(number);
                EXPECT_NEAR(value_at(r.back, first + c), number, bound * 1.01);
              }
            }
        }
  });
}

// oracle: hpc.ptq
TEST(Int4Rows, EveryInstructionSetHasTheBitsOfTheReference) {
  for (DType dtype : {DType::f32, DType::bf16})
    for (const Int4Rows of : {Int4Rows{1, 64}, {3, 31}, {5, 96}, {2, 2}, {1, 33}}) {
      const int64_t heads = of.heads, size = of.size;
      const Tensor x = random_tensor({301, heads * size}, dtype, 9);
      Rounded first;
      on_every_implementation([&](const std::string& name) {
        SCOPED_TRACE(testing::Message() << name << " " << dtype << " " << heads << " x " << size);
        const Rounded r = round_rows(x, heads);
        if (!first.codes) first = r;
        expect_same_bits(r.codes, first.codes, "codes");
        expect_same_bits(r.scales, first.scales, "scales");
        expect_same_bits(r.back, first.back, "back");
      });
    }
}

// oracle: hpc.ptq
TEST(Int4Rows, WorkedExampleConstantsAndNumbersThatAreNone) {
  on_every_implementation([](const std::string& name) {
    SCOPED_TRACE(name);
    const float none = std::numeric_limits<float>::quiet_NaN(), endless = std::numeric_limits<float>::infinity(),
                most = std::numeric_limits<float>::max();
    // Seven heads of three channels.
    const std::vector<float> numbers{-1, 2.25f, 6.5f,     0, 0,         0, 3, 3,     3,    1, none,
                                     2,  1,     -endless, 2, 0x1p-120f, 0, 0, -most, most, 0};
    const Rounded r = round_rows(tensor_of({1, 21}, numbers), 7);
    EXPECT_EQ(value_at(r.scales, 0), -1);
    EXPECT_EQ(value_at(r.scales, 1), .5);
    EXPECT_EQ(value_at(r.codes, 0), 0 | 15 << 4);  // channels 0 and 2
    EXPECT_EQ(value_at(r.codes, 1), 7);            // 6.5 steps: halves go up
    EXPECT_EQ(value_at(r.back, 1), 2.5);
    for (int64_t i = 3; i < 6; ++i) EXPECT_EQ(value_at(r.back, i), 0);
    for (int64_t i = 6; i < 9; ++i) EXPECT_EQ(value_at(r.back, i), 3);
    for (int64_t i = 9; i < 15; ++i) EXPECT_TRUE(std::isnan(value_at(r.back, i))) << i;
    for (int64_t i = 15; i < 18; ++i) EXPECT_EQ(value_at(r.back, i), 0);
    for (int64_t i = 18; i < 21; ++i) EXPECT_TRUE(std::isnan(value_at(r.back, i))) << i;
  });
}

TEST(Int4Rows, ErrorsNameShapes) {
  const Tensor x = zeros({2, 70}, DType::f32);
  const auto error_of = [&](const Tensor& codes, const Tensor& scales, int64_t heads) -> std::string {
    try {
      quantize_int4_rows({.x = x, .codes = codes, .scales = scales, .heads = heads});
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  };
  const Tensor codes = zeros({2, 36}, DType::u8), scales = zeros({2, 8}, DType::bf16);
  EXPECT_EQ(error_of(codes, scales, 2), "none");
  EXPECT_EQ(error_of(zeros({2, 35}, DType::u8), scales, 2),
            "quantize_int4_rows: codes must be u8 [2,36] for 2 heads of x [2,70], got u8[2,35]");
  EXPECT_EQ(error_of(codes, zeros({2, 4}, DType::bf16), 2),
            "quantize_int4_rows: scales must be bf16 [2,8] for 2 heads of x [2,70], got bf16[2,4]");
  EXPECT_EQ(error_of(codes, scales, 3), "quantize_int4_rows: x [2,70] must have a multiple of 3 heads as columns");
}

}  // namespace
}  // namespace lithe::kernels
