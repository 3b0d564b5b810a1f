#include <gtest/gtest.h>

#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

constexpr int64_t D = 5;

struct Wired {
  explicit Wired(const std::string& residual)
      : norm(bench.make<Norm>("layer", {.hidden_size = D}, "{}", "norm")),
        part(bench.make<Residual>(residual, {.norm = norm.get(), .dropout = &dropout})) {
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

// oracle: block.res_post_norm
TEST(ResPostNorm, AddsTheNormOfFToTheInput) {
  Wired wired("res_post");
  const Tensor x = kit::normal({3, D}, DType::f64, 1);
  EXPECT_EQ(kit::bit_difference(wired.part->forward(Var(x), generic).value(),
                                kit::sum(wired.norm->forward(generic(Var(x))).value(), x)),
            "");
  EXPECT_TRUE(wired.part->final_norm());
}

TEST(ResPostNorm, AddsTheNormsBiasWhenFIsZero) {
  Wired wired("res_post");
  const Tensor x = kit::normal({3, D}, DType::f64, 1);
  Tensor want = clone(x);
  for (int64_t i = 0; i < x.numel(); ++i)
    set_value(want, i, value_at(x, i) + value_at(wired.bench["norm.bias"], i % D));
  EXPECT_EQ(kit::bit_difference(wired.part->forward(Var(x), nothing).value(), want), "");
}

TEST(ResPostNorm, IsNotPreNorm) {
  const Wired printed("res_post"), standard("pre"), post("post");
  const Tensor x = kit::normal({3, D}, DType::f64, 1);
  const Tensor y = printed.part->forward(Var(x), generic).value();
  EXPECT_GT(kit::largest_difference(y, standard.part->forward(Var(x), generic).value()), 0.1);
  EXPECT_GT(kit::largest_difference(y, post.part->forward(Var(x), generic).value()), 0.1);
}

}  // namespace
}  // namespace lithe
