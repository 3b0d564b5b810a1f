#include "lithe/tensor/tensor.h"
#include "tests/support/errors.h"
#include "tests/support/numbers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace lithe {
namespace {

TEST(Shape, CountsAndPrints) {
  const Shape s{2, 3, 5};
  EXPECT_EQ(s.rank(), 3);
  EXPECT_EQ(s.numel(), 30);
  EXPECT_EQ(s[-1], 5);
  EXPECT_EQ(s[0], 2);
  EXPECT_EQ(cat(s), "[2,3,5]");
  EXPECT_EQ(cat(Shape{}), "[]");
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ((Shape{4, 0}).numel(), 0);
  EXPECT_NE((Shape{2, 3}), (Shape{3, 2}));
  EXPECT_NE((Shape{2}), (Shape{2, 1}));
}

TEST(Shape, RefusesFiveAxesAndNegativeSizes) {
  EXPECT_EQ(kit::error_of([] { Shape{1, 1, 1, 1, 1}; }), "shape: at most 4 axes, got 5");
  EXPECT_EQ(kit::error_of([] { Shape{2, -1}; }), "shape: sizes must not be negative, got -1");
}

TEST(Bf16, RoundsToNearestEven) {
  EXPECT_EQ(float(bf16(1.0f)), 1.0f);
  EXPECT_EQ(float(bf16(1.00390625f)), 1.0f);       // halfway, to the even one below
  EXPECT_EQ(float(bf16(1.01171875f)), 1.015625f);  // halfway, to the even one above
  EXPECT_EQ(float(bf16(1.00391f)), 1.0078125f);    // just above halfway
  EXPECT_EQ(float(bf16(-1.00391f)), -1.0078125f);
  EXPECT_EQ(float(bf16(3.4e38f)), INFINITY);  // beyond the greatest
  EXPECT_EQ(float(bf16(-INFINITY)), -INFINITY);
  EXPECT_EQ(bf16(-0.0f).bits, 0x8000);
  EXPECT_TRUE(std::isnan(float(bf16(NAN))));
  // A NaN whose payload stands in the lower half stays a NaN.
  EXPECT_TRUE(std::isnan(float(bf16(std::bit_cast<float>(0x7f800001u)))));
  EXPECT_EQ(float(bf16(1e-40f)), std::bit_cast<float>(uint32_t(bf16(1e-40f).bits) << 16));
}

// Every f32 between two neighbouring bf16 goes to the nearer one.
TEST(Bf16, IsWithinHalfAStep) {
  std::mt19937 bits(1);
  for (int i = 0; i < 100000; ++i) {
    const float x = std::bit_cast<float>(uint32_t(bits()));
    if (!std::isfinite(x) || std::abs(x) > 3e38f) continue;
    const double step = std::ldexp(1.0, std::max(std::ilogb(x), -126) - 7);
    EXPECT_LE(std::abs(double(float(bf16(x))) - double(x)), step / 2) << x;
  }
}

TEST(Tensor, IsASharedHandle) {
  const float values[] = {1, 2, 3, 4, 5, 6};
  const Tensor x = tensor_of({3, 2}, values), same = x;
  set_value(same, 5, 9);
  EXPECT_EQ(value_at(x, 5), 9);
  EXPECT_EQ(x.sharers(), 2);
  const Tensor copy = clone(x);
  set_value(copy, 0, 7);
  EXPECT_EQ(value_at(x, 0), 1);
  EXPECT_FALSE(Tensor().defined());
  EXPECT_EQ(Tensor().raw(), nullptr);
}

TEST(Tensor, SlicesAndReshapesShareMemory) {
  const float values[] = {1, 2, 3, 4, 5, 6};
  const Tensor x = tensor_of({3, 2}, values), middle = x.slice(1, 2), flat = x.reshape({6});
  EXPECT_EQ(middle.shape(), (Shape{1, 2}));
  EXPECT_EQ(value_at(middle, 1), 4);
  set_value(middle, 0, 30);
  EXPECT_EQ(value_at(flat, 2), 30);
  EXPECT_EQ(x.slice(3, 3).numel(), 0);
  EXPECT_EQ(x.slice(1, 3).slice(1, 2).data<float>(), x.data<float>() + 4);
  EXPECT_EQ(x.rows(), 3);
  EXPECT_EQ(x.cols(), 2);
  EXPECT_EQ(x.reshape({1, 3, 2}).rows(), 3);
  EXPECT_EQ(kit::error_of([&] { x.slice(2, 4); }), "slice: rows [2,4) of [3,2]");
  EXPECT_EQ(kit::error_of([&] { x.reshape({4}); }), "reshape: [3,2] has 6 elements, [4] has 4");
  EXPECT_EQ(kit::error_of([&] { x.data<double>(); }), "tensor: holds f32, asked for as f64");
  EXPECT_EQ(kit::error_of([&] { tensor_of({4}, values); }), "tensor: [4] needs 4 values, got 6");
}

TEST(Tensor, ConvertsAndCopies) {
  const double values[] = {1.5, -2.25, 1e-3, 300};
  const Tensor x = tensor_of({4}, values), half = convert(x, DType::bf16), whole = convert(x, DType::i32);
  EXPECT_EQ(value_at(half, 1), -2.25);
  EXPECT_NEAR(value_at(half, 2), 1e-3, 1e-3 * epsilon_of(DType::bf16));
  EXPECT_EQ(value_at(whole, 0), 1);
  EXPECT_EQ(value_at(whole, 3), 300);
  const Tensor target = zeros({2, 2}, DType::f64);
  copy_into(target, x);
  EXPECT_EQ(value_at(target, 3), 300);
  EXPECT_EQ(kit::error_of([&] { copy_into(target, half); }), "copy: from bf16[4] to f64[2,2]");
}

TEST(Tensor, RowsAreCopiedBetweenTensors) {
  const Tensor from = kit::normal({4, 3}, DType::f32, 1), to = zeros({5, 3}, DType::f32);
  copy_rows(to, 2, from, 1, 2);
  EXPECT_EQ(kit::bit_difference(to.slice(2, 4), from.slice(1, 3)), "");
  for (const int64_t row : {0, 1, 4})
    EXPECT_EQ(kit::bit_difference(to.slice(row, row + 1), zeros({1, 3}, DType::f32)), "");
  EXPECT_EQ(kit::error_of([&] { copy_rows(to, 4, from, 1, 2); }), "copy: rows [1,3) of f32[4,3] to row 4 of f32[5,3]");
  EXPECT_EQ(kit::error_of([&] { copy_rows(to, 0, from, 3, 2); }), "copy: rows [3,5) of f32[4,3] to row 0 of f32[5,3]");
  EXPECT_EQ(kit::error_of([&] {
              copy_rows(zeros({5, 3}, DType::bf16), 0, from, 0, 1);
            }),
            "copy: rows [0,1) of f32[4,3] to row 0 of bf16[5,3]");
}

TEST(Tensor, OnMetaHasAShapeAndNoData) {
  const Tensor x = zeros({1 << 20, 1 << 20}, DType::f32, Device::meta);
  EXPECT_TRUE(x.is_meta());
  EXPECT_EQ(x.raw(), nullptr);
  EXPECT_EQ(x.bytes(), int64_t(1) << 42);
  EXPECT_EQ(x.slice(5, 9).shape(), (Shape{4, 1 << 20}));
  EXPECT_TRUE(clone(x).is_meta());
  EXPECT_TRUE(convert(x.slice(0, 2), DType::bf16).is_meta());
}

TEST(DType, EpsilonIsHalfTheGapAboveOne) {
  EXPECT_EQ(epsilon_of(DType::f64), std::numeric_limits<double>::epsilon() / 2);
  EXPECT_EQ(epsilon_of(DType::f32), std::numeric_limits<float>::epsilon() / 2);
  EXPECT_EQ(epsilon_of(DType::bf16), 0x1p-8);
  EXPECT_EQ(kit::error_of([] { dispatch_float(DType::i32, []<class T>() {}); }),
            "dispatch: needs a floating type, got i32");
}

}  // namespace
}  // namespace lithe
