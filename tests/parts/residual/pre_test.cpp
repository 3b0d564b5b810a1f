#include <gtest/gtest.h>

#include "tests/parts/residual/residual_kit.h"

namespace lithe {
namespace {

// oracle: block.pre_norm
TEST(PreNorm, AddsFOfTheNormToTheInput) {
  NormedResidual pre("pre");
  const Tensor x = kit::normal({3, kResidualWidth}, DType::f64, 1);
  EXPECT_EQ(kit::bit_difference(pre.part->forward(Var(x), generic_branch).value(),
                                kit::sum(generic_branch(pre.norm->forward(Var(x))).value(), x)),
            "");
  EXPECT_TRUE(pre.part->final_norm());
}

TEST(PreNorm, IsTheIdentityWhenFIsZero) {
  NormedResidual pre("pre");
  const Tensor x = kit::normal({3, kResidualWidth}, DType::f64, 1);
  EXPECT_EQ(kit::bit_difference(pre.part->forward(Var(x), zero_branch).value(), x), "");
}

TEST(PreNorm, ScaledInputsScaleTheSkipPathOnly) {
  NormedResidual pre("pre", "{eps: 0}");
  const Tensor x = kit::normal({3, kResidualWidth}, DType::f64, 1);
  Tensor scaled = clone(x);
  for (int64_t i = 0; i < x.numel(); ++i) set_value(scaled, i, 64 * value_at(x, i));
  const Tensor y = pre.part->forward(Var(x), generic_branch).value(),
               z = pre.part->forward(Var(scaled), generic_branch).value();
  for (int64_t i = 0; i < x.numel(); ++i)
    EXPECT_NEAR(value_at(z, i) - value_at(scaled, i), value_at(y, i) - value_at(x, i), 8 * 0x1p-53 * 64 * 5);
}

// E08: the Jacobian of a stack is the product of I + J_k, J_k that of F_k(norm(.)) at the stack's k-th input.
TEST(PreNorm, JacobianOfAStackIsTheProductOfItsLayers) {
  NormedResidual first("pre"), second("pre");
  kit::randomise(second.bench.parameters(), 5);
  const Tensor x = kit::normal({1, kResidualWidth}, DType::f64, 1);
  const auto stack = [&](const Tensor& in) {
    return second.part->forward(first.part->forward(Var(in), generic_branch), generic_branch).value();
  };
  // Row r of the Jacobian of F(norm(.)) by differentiating output r; plus I.
  const auto layer = [&](const NormedResidual& pre, const Tensor& at) {
    const Tensor jacobian = kit::identity(kResidualWidth);
    for (int64_t r = 0; r < kResidualWidth; ++r) {
      const Var in = Var::leaf(clone(at));
      Tape tape;
      tape.backward(generic_branch(pre.norm->forward(in)), kit::rows_of(kit::identity(kResidualWidth), {r}));
      for (int64_t c = 0; c < kResidualWidth; ++c)
        set_value(jacobian, r * kResidualWidth + c,
                  value_at(jacobian, r * kResidualWidth + c) + value_at(in.grad(), c));
    }
    return jacobian;
  };
  const Tensor product =
      kit::product(layer(second, first.part->forward(Var(x), generic_branch).value()), layer(first, x));
  for (int64_t c = 0; c < kResidualWidth; ++c) {
    Tensor up = clone(x), down = clone(x);
    set_value(up, c, value_at(x, c) + 1e-5);
    set_value(down, c, value_at(x, c) - 1e-5);
    const Tensor a = stack(up), b = stack(down);
    for (int64_t r = 0; r < kResidualWidth; ++r)
      EXPECT_NEAR((value_at(a, r) - value_at(b, r)) / 2e-5, value_at(product, r * kResidualWidth + c), 1e-7)
          << r << " " << c;
  }
}

}  // namespace
}  // namespace lithe
