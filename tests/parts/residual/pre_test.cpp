#include <gtest/gtest.h>

#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

constexpr int64_t D = 5;

struct Pre {
  explicit Pre(const std::string& norm_options = "{}")
      : norm(bench.make<Norm>("layer", {.hidden_size = D}, norm_options, "norm")),
        part(bench.make<Residual>("pre", {.norm = norm.get(), .dropout = &dropout})) {
    kit::randomise(bench.parameters(), 4);
  }
  kit::Bench bench;
  Dropout dropout;
  std::unique_ptr<Norm> norm;
  std::unique_ptr<Residual> part;
};

Var generic(const Var& x, int64_t = 0) {
  return activate(kernels::Activation::silu, linear(x, Var(kit::normal({D, D}, DType::f64, 8))));
}
Var nothing(const Var& x, int64_t = 0) { return scale(x, 0); }

// oracle: block.pre_norm
TEST(PreNorm, AddsFOfTheNormToTheInput) {
  Pre pre;
  const Tensor x = kit::normal({3, D}, DType::f64, 1);
  EXPECT_EQ(kit::bit_difference(pre.part->forward(Var(x), generic).value(),
                                kit::sum(generic(pre.norm->forward(Var(x))).value(), x)),
            "");
  EXPECT_TRUE(pre.part->final_norm());
}

TEST(PreNorm, IsTheIdentityWhenFIsZero) {
  Pre pre;
  const Tensor x = kit::normal({3, D}, DType::f64, 1);
  EXPECT_EQ(kit::bit_difference(pre.part->forward(Var(x), nothing).value(), x), "");
}

TEST(PreNorm, ScaledInputsScaleTheSkipPathOnly) {
  Pre pre("{eps: 0}");
  const Tensor x = kit::normal({3, D}, DType::f64, 1);
  Tensor scaled = clone(x);
  for (int64_t i = 0; i < x.numel(); ++i) set_value(scaled, i, 64 * value_at(x, i));
  const Tensor y = pre.part->forward(Var(x), generic).value(), z = pre.part->forward(Var(scaled), generic).value();
  for (int64_t i = 0; i < x.numel(); ++i)
    EXPECT_NEAR(value_at(z, i) - value_at(scaled, i), value_at(y, i) - value_at(x, i), 8 * 0x1p-53 * 64 * 5);
}

// E08: the Jacobian of a stack is the product of I + J_k, J_k that of F_k(norm(.)) at the stack's k-th input.
TEST(PreNorm, JacobianOfAStackIsTheProductOfItsLayers) {
  Pre first, second;
  kit::randomise(second.bench.parameters(), 5);
  const Tensor x = kit::normal({1, D}, DType::f64, 1);
  const auto stack = [&](const Tensor& in) {
    return second.part->forward(first.part->forward(Var(in), generic), generic).value();
  };
  // Row r of the Jacobian of F(norm(.)) by differentiating output r; plus I.
  const auto layer = [&](const Pre& pre, const Tensor& at) {
    const Tensor jacobian = kit::identity(D);
    for (int64_t r = 0; r < D; ++r) {
      const Var in = Var::leaf(clone(at));
      Tape tape;
      tape.backward(generic(pre.norm->forward(in)), kit::rows_of(kit::identity(D), {r}));
      for (int64_t c = 0; c < D; ++c)
        set_value(jacobian, r * D + c, value_at(jacobian, r * D + c) + value_at(in.grad(), c));
    }
    return jacobian;
  };
  const Tensor product = kit::product(layer(second, first.part->forward(Var(x), generic).value()), layer(first, x));
  for (int64_t c = 0; c < D; ++c) {
    Tensor up = clone(x), down = clone(x);
    set_value(up, c, value_at(x, c) + 1e-5);
    set_value(down, c, value_at(x, c) - 1e-5);
    const Tensor a = stack(up), b = stack(down);
    for (int64_t r = 0; r < D; ++r)
      EXPECT_NEAR((value_at(a, r) - value_at(b, r)) / 2e-5, value_at(product, r * D + c), 1e-7) << r << " " << c;
  }
}

}  // namespace
}  // namespace lithe
