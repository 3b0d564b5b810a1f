#include "lithe/ops/heads.h"

#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

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

TEST(HeadLinear, MapsEachHeadByItsOwnMatrix) {
  const Tensor w = kit::normal({3, 4}, DType::f64, 1), wide = kit::normal({5, 6}, DType::f64, 2),
               narrow = kit::normal({5, 4}, DType::f64, 3);
  for (int64_t head = 0; head < 2; ++head) {
    const Tensor mine = kit::columns_of(w, {2 * head, 2 * head + 1});
    Tensor turned = empty({2, 3}, DType::f64);
    for (int64_t i = 0; i < 6; ++i) set_value(turned, i, value_at(mine, i % 3 * 2 + i / 3));
    EXPECT_EQ(kit::close(kit::columns_of(head_linear(Var(wide), Var(w), 2, false).value(), {2 * head, 2 * head + 1}),
                         kit::product(kit::columns_of(wide, {3 * head, 3 * head + 1, 3 * head + 2}), mine), 16),
              "");
    EXPECT_EQ(kit::close(kit::columns_of(head_linear(Var(narrow), Var(w), 2, true).value(),
                                         {3 * head, 3 * head + 1, 3 * head + 2}),
                         kit::product(kit::columns_of(narrow, {2 * head, 2 * head + 1}), turned), 16),
              "");
  }
  kit::expect_gradients([](const Vars& in) { return head_linear(in[0], in[1], 2, false); }, {wide, w});
  kit::expect_gradients([](const Vars& in) { return head_linear(in[0], in[1], 2, true); }, {narrow, w});
}

}  // namespace
}  // namespace lithe
