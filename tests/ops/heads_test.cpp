#include "lithe/ops/heads.h"

#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

using Vars = std::vector<Var>;

TEST(SpreadHeads, RepeatsRowsWithEachHeadsOwnScaleAndShift) {
  const Var x(kit::tensor_f64({1, 2}, {1, 2})), scale(kit::tensor_f64({4}, {1, 10, 2, 20})),
      shift(kit::tensor_f64({4}, {0, 0, 100, 200}));
  EXPECT_EQ(kit::values(spread_heads(x, 2, scale, shift).value()), (std::vector<double>{1, 20, 102, 240}));
  EXPECT_EQ(kit::values(spread_heads(x, 2, {}, shift).value()), (std::vector<double>{1, 2, 101, 202}));
  EXPECT_EQ(kit::values(spread_heads(x, 2, scale, {}).value()), (std::vector<double>{1, 20, 2, 40}));
}

TEST(SpreadHeads, Gradients) {
  const std::vector<Tensor> inputs{kit::normal({4, 3}, DType::f64, 1), kit::normal({6}, DType::f64, 2),
                                   kit::normal({6}, DType::f64, 3)};
  kit::expect_gradients([](const Vars& in) { return spread_heads(in[0], 2, in[1], in[2]); }, inputs);
  kit::expect_gradients([](const Vars& in) { return spread_heads(in[0], 2, in[1], in[1]); }, inputs, "scale is shift");
  kit::expect_gradients([](const Vars& in) { return spread_heads(in[0], 2, {}, in[2]); }, inputs, "shift only");
  kit::expect_gradients([](const Vars& in) { return spread_heads(in[0], 2, in[1], {}); }, inputs, "scale only");
}

}  // namespace
}  // namespace lithe
