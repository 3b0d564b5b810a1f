#include <gtest/gtest.h>

#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

constexpr int64_t D = 5;

struct Post {
  explicit Post(const std::string& norm_options = "{}")
      : norm(bench.make<Norm>("layer", {.hidden_size = D}, norm_options, "norm")),
        part(bench.make<Residual>("post", {.norm = norm.get(), .dropout = &dropout})) {}
  kit::Bench bench;
  Dropout dropout;
  std::unique_ptr<Norm> norm;
  std::unique_ptr<Residual> part;
};

Var generic(const Var& x, int64_t = 0) {
  return activate(kernels::Activation::silu, linear(x, Var(kit::normal({D, D}, DType::f64, 8))));
}
Var nothing(const Var& x, int64_t = 0) { return scale(x, 0); }

// oracle: block.post_norm
TEST(PostNorm, NormsTheSumOfInputAndF) {
  Post post;
  kit::randomise(post.bench.parameters(), 4);
  const Tensor x = kit::normal({3, D}, DType::f64, 1);
  const Tensor sum = kit::sum(generic(Var(x)).value(), x);
  EXPECT_EQ(kit::bit_difference(post.part->forward(Var(x), generic).value(), post.norm->forward(Var(sum)).value()), "");
  EXPECT_FALSE(post.part->final_norm());
}

TEST(PostNorm, IsTheNormWhenFIsZero) {
  Post post;
  kit::randomise(post.bench.parameters(), 4);
  const Tensor x = kit::normal({3, D}, DType::f64, 1);
  EXPECT_EQ(kit::bit_difference(post.part->forward(Var(x), nothing).value(), post.norm->forward(Var(x)).value()), "");
}

TEST(PostNorm, RowsHaveMean0AndVariance1) {
  const Post post("{eps: 0}");  // weight 1 and bias 0, as at the start
  const Tensor y = post.part->forward(Var(kit::normal({4, D}, DType::f64, 1, 3, 2)), generic).value();
  for (int64_t n = 0; n < 4; ++n) {
    double mean = 0, variance = 0;
    for (int64_t c = 0; c < D; ++c) mean += value_at(y, n * D + c) / D;
    for (int64_t c = 0; c < D; ++c) variance += (value_at(y, n * D + c) - mean) * (value_at(y, n * D + c) - mean) / D;
    EXPECT_NEAR(mean, 0, 32 * 0x1p-53);
    EXPECT_NEAR(variance, 1, 64 * 0x1p-53);
  }
}

}  // namespace
}  // namespace lithe
