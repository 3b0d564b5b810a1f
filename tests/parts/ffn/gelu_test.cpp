#include "tests/parts/ffn/two_maps_kit.h"

namespace lithe {
namespace {

// oracle: ffn.gelu
TEST(GeluFfn, MultipliesByTheNormalDistribution) {
  TwoMaps ffn("gelu", 1, "{intermediate_size: 1}");
  for (const char* name : {"part.up.weight", "part.down.weight"}) kit::assign(ffn.bench[name], {1});
  for (const char* name : {"part.up.bias", "part.down.bias"}) kit::assign(ffn.bench[name], {0});
  // x Phi(x) with Phi(1) = 0.841344746, Phi(2) = 0.977249868, Phi(0.5) = 0.691462461.
  EXPECT_EQ(kit::close_to_printed(ffn(kit::tensor_f64({5, 1}, {1, -1, 2, 0.5, 0})),
                                  {0.841345, -0.158655, 1.954500, 0.345731, 0}, 6),
            "");
  EXPECT_EQ(kit::close_to_printed(ffn(kit::tensor_f64({2, 1}, {40, -40})), {40, 0}, 12), "");
}

TEST(GeluFfn, CountsItsParameters) {
  for (const auto& [d, d_ff] : {std::pair<int64_t, int64_t>{3, 7}, {8, 32}, {5, 1}}) {
    EXPECT_EQ(TwoMaps("gelu", d, cat("{intermediate_size: ", d_ff, "}")).bench.parameters().count(),
              2 * d * d_ff + d + d_ff);
    EXPECT_EQ(TwoMaps("gelu", d).bench.parameters().count(), 8 * d * d + 5 * d);
  }
}

TEST(GeluFfn, OrderOfHiddenUnitsDoesNotMatter) { expect_order_of_hidden_units_not_to_matter("gelu"); }

TEST(GeluFfn, VeryNegativePreactivationsGiveTheBias) { expect_the_bias_alone("gelu"); }

TEST(GeluFfn, RowsInAnotherOrderGiveTheSameRowsInThatOrder) { expect_rows_in_another_order("gelu"); }

}  // namespace
}  // namespace lithe
