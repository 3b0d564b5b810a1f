#include <gtest/gtest.h>

#include "tests/parts/residual/residual_kit.h"

namespace lithe {
namespace {

// oracle: block.res_post_norm
TEST(ResPostNorm, AddsTheNormOfFToTheInput) {
  NormedResidual wired("res_post");
  const Tensor x = kit::normal({3, kResidualWidth}, DType::f64, 1);
  EXPECT_EQ(kit::bit_difference(wired.part->forward(Var(x), generic_branch).value(),
                                kit::sum(wired.norm->forward(generic_branch(Var(x))).value(), x)),
            "");
  EXPECT_TRUE(wired.part->final_norm());
}

TEST(ResPostNorm, AddsTheNormsBiasWhenFIsZero) {
  NormedResidual wired("res_post");
  const Tensor x = kit::normal({3, kResidualWidth}, DType::f64, 1);
  Tensor want = clone(x);
  for (int64_t i = 0; i < x.numel(); ++i)
    set_value(want, i, value_at(x, i) + value_at(wired.bench["norm.bias"], i % kResidualWidth));
  EXPECT_EQ(kit::bit_difference(wired.part->forward(Var(x), zero_branch).value(), want), "");
}

TEST(ResPostNorm, IsNotPreNorm) {
  const NormedResidual printed("res_post"), standard("pre"), post("post");
  const Tensor x = kit::normal({3, kResidualWidth}, DType::f64, 1);
  const Tensor y = printed.part->forward(Var(x), generic_branch).value();
  EXPECT_GT(kit::largest_difference(y, standard.part->forward(Var(x), generic_branch).value()), 0.1);
  EXPECT_GT(kit::largest_difference(y, post.part->forward(Var(x), generic_branch).value()), 0.1);
}

}  // namespace
}  // namespace lithe
