#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

TEST(SiluFfn, IsTwoLinearMapsWithSiluBetween) {
  kit::Bench bench;
  const auto part = bench.make<Ffn>("silu", {.hidden_size = 2}, "{intermediate_size: 2}");
  kit::assign(bench["part.up.weight"], {1, 2, -1, 0});
  kit::assign(bench["part.up.bias"], {1, -5});
  kit::assign(bench["part.down.weight"], {1, 10, 2, 20});
  kit::assign(bench["part.down.bias"], {0.5, -0.5});
  // x = (1, 2): hidden (-1, 2) + (1, -5) = (0, -3); silu (0, -3 / (1 + e^3)).
  const double h = -3 / (1 + std::exp(3.0));
  const Tensor y = part->forward({Var(kit::tensor_f64({1, 2}, {1, 2})), Sequences::single(1)}).value();
  EXPECT_EQ(kit::close(y, kit::tensor_f64({1, 2}, {0.5 + 2 * h, -0.5 + 20 * h}), 10), "");
}

TEST(SiluFfn, CountsItsParameters) {
  for (const bool bias : {false, true}) {
    kit::Bench bench;
    const auto part =
        bench.make<Ffn>("silu", {.hidden_size = 3}, cat("{intermediate_size: 7, bias: ", bias ? "true" : "false", "}"));
    EXPECT_EQ(bench.parameters().count(), 2 * 3 * 7 + (bias ? 10 : 0));
  }
}

}  // namespace
}  // namespace lithe
