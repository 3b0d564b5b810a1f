#include <gtest/gtest.h>

#include <cmath>

#include "tests/parts/combiner/combiner_kit.h"

namespace lithe {
namespace {

// oracle: syn.combine
TEST(GateCombiner, ChoosesChannelByChannel) {
  kit::Combining gate("gate");
  EXPECT_EQ(gate.bench.parameters().count(), 2 * 4 * 4 + 4);
  const Rows syntax = kit::some_rows({0, 3, 5}, 1), text = kit::some_rows({0, 3, 5}, 2);
  const Tensor s = syntax.x.value(), t = text.x.value(), y = gate({syntax, text}).x.value();
  const Tensor z =
      kit::sum(kit::product(s, gate.bench["part.further.weight"]), kit::product(t, gate.bench["part.text.weight"]));
  const Tensor bias = gate.bench["part.further.bias"];
  for (int64_t i = 0; i < y.numel(); ++i) {
    const double g = 1 / (1 + std::exp(-value_at(z, i) - value_at(bias, i % 4)));
    EXPECT_NEAR(value_at(y, i), g * value_at(s, i) + (1 - g) * value_at(t, i), 1e-14);
  }
  for (int64_t c = 0; c < 4; ++c) set_value(bias, c, 1e4);
  EXPECT_EQ(kit::bit_difference(gate({syntax, text}).x.value(), s), "");
  for (int64_t c = 0; c < 4; ++c) set_value(bias, c, -1e4);
  EXPECT_EQ(kit::bit_difference(gate({syntax, text}).x.value(), t), "");
}

TEST(GateCombiner, GradientsAgreeWithDifferences) {
  kit::Combining gate("gate");
  EXPECT_LE(kit::gradient_error(
                gate.bench.parameters(),
                [&](const std::vector<Var>& in) {
                  return std::vector<Var>{gate({{in[0], Sequences({0, 2, 3})}, {in[1], Sequences({0, 2, 3})}}).x};
                },
                {kit::normal({3, 4}, DType::f64, 1), kit::normal({3, 4}, DType::f64, 2)}),
            1e-7);
}

TEST(GateCombiner, IsOfTwoEncoders) {
  EXPECT_NE(kit::coded_error_of([] {
              kit::Combining("gate", "{}", 4, 3);
            }).find("2 combiner: gate chooses between two encoders, and 3 are combined"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
