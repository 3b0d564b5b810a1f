#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

TEST(DenseOutput, IsALinearMapOfTheHeads) {
  for (bool bias : {false, true}) {
    kit::Bench bench;
    const auto part = bench.make<Output>("dense", {.context = 6, .hidden_size = 4, .bias = bias});
    EXPECT_EQ(bench.parameters().count(), 24 + (bias ? 4 : 0));
    kit::randomise(bench.parameters(), 1);
    const Tensor x = kit::normal({5, 6}, DType::f64, 2);
    Tensor want = kit::product(x, bench["part.weight"]);
    if (bias)
      for (int64_t i = 0; i < 20; ++i) set_value(want, i, value_at(want, i) + value_at(bench["part.bias"], i % 4));
    EXPECT_EQ(kit::close(part->forward(Var(x)).value(), want, 12), "");
  }
}

}  // namespace
}  // namespace lithe
