#include "tests/parts/ffn/two_maps_kit.h"

namespace lithe {
namespace {

// oracle: ffn.relu
TEST(ReluFfn, IsTwoLinearMapsWithMaxBetween) {
  TwoMaps ffn("relu", 2, "{intermediate_size: 3}");
  kit::assign(ffn.bench["part.up.weight"], {1, 2, -1, 0, 1, 1});
  kit::assign(ffn.bench["part.up.bias"], {0, -5, 1});
  kit::assign(ffn.bench["part.down.weight"], {1, 10, 2, 20, 3, 30});
  kit::assign(ffn.bench["part.down.bias"], {0.5, -0.5});
  // x = (1, 2): hidden (1, 4, 1) + (0, -5, 1) -> (1, 0, 2); y = (1 + 6, 10 + 60) + (0.5, -0.5).
  EXPECT_EQ(kit::bit_difference(ffn(kit::tensor_f64({1, 2}, {1, 2})), kit::tensor_f64({1, 2}, {7.5, 69.5})), "");
}

TEST(ReluFfn, CountsItsParameters) {
  for (const auto& [d, d_ff] : {std::pair<int64_t, int64_t>{3, 7}, {8, 32}, {5, 1}}) {
    EXPECT_EQ(TwoMaps("relu", d, cat("{intermediate_size: ", d_ff, "}")).bench.parameters().count(),
              2 * d * d_ff + d + d_ff);
    EXPECT_EQ(TwoMaps("relu", d, cat("{intermediate_size: ", d_ff, ", bias: false}")).bench.parameters().count(),
              2 * d * d_ff);
    EXPECT_EQ(TwoMaps("relu", d).bench.parameters().count(), 8 * d * d + 5 * d);  // d_ff = 4 d
  }
}

TEST(ReluFfn, OrderOfHiddenUnitsDoesNotMatter) { expect_order_of_hidden_units_not_to_matter("relu"); }

TEST(ReluFfn, HiddenUnitsCanBeScaledByPositiveNumbers) {
  TwoMaps ffn("relu", 4, "{intermediate_size: 5}"), other("relu", 4, "{intermediate_size: 5}");
  for (const char* name : {"part.up.weight", "part.up.bias"})
    for (int64_t i = 0; i < ffn.bench[name].numel(); ++i)
      set_value(other.bench[name], i, 3 * value_at(ffn.bench[name], i));
  for (int64_t i = 0; i < 20; ++i)
    set_value(other.bench["part.down.weight"], i, value_at(ffn.bench["part.down.weight"], i) / 3);
  const Tensor x = kit::normal({6, 4}, DType::f64, 1);
  EXPECT_EQ(kit::close(other(x), ffn(x), 20), "");
}

TEST(ReluFfn, NegativePreactivationsGiveTheBias) { expect_the_bias_alone("relu"); }

TEST(ReluFfn, RowsInAnotherOrderGiveTheSameRowsInThatOrder) { expect_rows_in_another_order("relu"); }

}  // namespace
}  // namespace lithe
