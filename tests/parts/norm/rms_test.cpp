#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Rms {
  explicit Rms(int64_t d, const std::string& options = "{}")
      : part(bench.make<Norm>("rms", {.hidden_size = d}, options)) {}
  Tensor operator()(const Tensor& x) const { return part->forward(Var(x)).value(); }
  kit::Bench bench;
  std::unique_ptr<Norm> part;
};

// oracle: norm.rms
TEST(RmsNorm, DividesByTheRootOfTheMeanSquare) {
  // mean of squares of (3, 4): 12.5; eps is added to it, under the root.
  EXPECT_EQ(kit::close_to_printed(Rms(2, "{eps: 0}")(kit::tensor_f64({1, 2}, {3, 4})), {0.848528, 1.131371}, 6), "");
  EXPECT_EQ(kit::close(Rms(2, "{eps: 3.5}")(kit::tensor_f64({1, 2}, {3, 4})), kit::tensor_f64({1, 2}, {0.75, 1}), 4),
            "");
  Rms weighted(2, "{eps: 3.5}");
  kit::assign(weighted.bench["part.weight"], {2, -3});
  EXPECT_EQ(kit::close(weighted(kit::tensor_f64({1, 2}, {3, 4})), kit::tensor_f64({1, 2}, {1.5, -3}), 4), "");
}

TEST(RmsNorm, WithoutEpsIsInvariantToScalesButNotToShifts) {
  const Tensor x = kit::normal({5, 7}, DType::f64, 1);
  Tensor shifted = clone(x), scaled = clone(x);
  for (int64_t i = 0; i < x.numel(); ++i)
    set_value(shifted, i, value_at(x, i) + 3), set_value(scaled, i, value_at(x, i) * 8);
  const Rms rms(7, "{eps: 0}");
  EXPECT_EQ(kit::bit_difference(rms(scaled), rms(x)), "");  // a power of two rounds nothing
  EXPECT_NE(kit::close(rms(shifted), rms(x), 1e10), "");
}

TEST(RmsNorm, RowsHaveMeanSquareOne) {
  const Tensor y = Rms(9, "{eps: 0}")(kit::normal({4, 9}, DType::f64, 2, 5));
  for (int64_t n = 0; n < 4; ++n) {
    double squares = 0;
    for (int64_t c = 0; c < 9; ++c) squares += value_at(y, n * 9 + c) * value_at(y, n * 9 + c);
    EXPECT_NEAR(squares / 9, 1, 32 * 0x1p-53);
  }
}

TEST(RmsNorm, HasOneNumberAChannel) {
  for (int64_t d : {1, 8, 33}) EXPECT_EQ(Rms(d).bench.parameters().count(), d);
}

}  // namespace
}  // namespace lithe
