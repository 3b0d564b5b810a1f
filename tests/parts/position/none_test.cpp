#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

TEST(NoPositions, ChangeNothing) {
  kit::Bench bench;
  const auto part = bench.make<Position>("none", {.hidden_size = 3, .max_position_embeddings = 2});
  const Tensor x = kit::normal({6, 3}, DType::f64, 1);
  EXPECT_EQ(kit::bit_difference(part->add_to(Var(x), Sequences::single(6)).value(), x), "");
  EXPECT_EQ(kit::bit_difference(part->turn(Var(x), Sequences::single(6), 3).value(), x), "");
  EXPECT_FALSE(part->turns());
  EXPECT_EQ(part->limit(), 0);
  EXPECT_EQ(bench.parameters().count(), 0);
}

}  // namespace
}  // namespace lithe
