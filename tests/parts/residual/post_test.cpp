#include <gtest/gtest.h>

#include "tests/parts/residual/residual_kit.h"

namespace lithe {
namespace {

// oracle: block.post_norm
TEST(PostNorm, NormsTheSumOfInputAndF) {
  const NormedResidual post("post");
  const Tensor x = kit::normal({3, kResidualWidth}, DType::f64, 1);
  const Tensor sum = kit::sum(generic_branch(Var(x)).value(), x);
  EXPECT_EQ(
      kit::bit_difference(post.part->forward(Var(x), generic_branch).value(), post.norm->forward(Var(sum)).value()),
      "");
  EXPECT_FALSE(post.part->final_norm());
}

TEST(PostNorm, IsTheNormWhenFIsZero) {
  const NormedResidual post("post");
  const Tensor x = kit::normal({3, kResidualWidth}, DType::f64, 1);
  EXPECT_EQ(kit::bit_difference(post.part->forward(Var(x), zero_branch).value(), post.norm->forward(Var(x)).value()),
            "");
}

TEST(PostNorm, RowsHaveMean0AndVariance1) {
  const NormedResidual post("post", "{eps: 0}", 0);  // weight 1 and bias 0, as at the start
  const Tensor y =
      post.part->forward(Var(kit::normal({4, kResidualWidth}, DType::f64, 1, 3, 2)), generic_branch).value();
  for (int64_t n = 0; n < 4; ++n) {
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < kResidualWidth; ++c) mean += value_at(y, n * kResidualWidth + c) / kResidualWidth;
    for (int64_t c = 0; c < kResidualWidth; ++c)
      variance +=
          (value_at(y, n * kResidualWidth + c) - mean) * (value_at(y, n * kResidualWidth + c) - mean) / kResidualWidth;
    EXPECT_NEAR(mean, 0, 32 * 0x1p-53);
    EXPECT_NEAR(variance, 1, 64 * 0x1p-53);
  }
}

}  // namespace
}  // namespace lithe
