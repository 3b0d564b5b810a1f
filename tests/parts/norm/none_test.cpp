#include <gtest/gtest.h>

#include "lithe/ops/basic.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

// oracle: block.norm_variants
TEST(NoNorm, MakesAResidualBlockAnEulerStep) {
  kit::Bench bench;
  const Dropout dropout;
  const auto norm = bench.make<Norm>("none", {.hidden_size = 4});
  const auto block = bench.make<Residual>("pre", {.hidden_size = 4, .norm = norm.get(), .dropout = &dropout});
  EXPECT_EQ(bench.parameters().count(), 0);
  const Tensor x = kit::normal({3, 4}, DType::f64, 1);
  const auto f = [](const Var& at, int64_t) { return mul(at, at); };
  EXPECT_EQ(kit::bit_difference(block->forward(Var(x), f).value(), add(f(Var(x), 0), Var(x)).value()), "");
}

}  // namespace
}  // namespace lithe
