#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct LayerNormAlone {
  explicit LayerNormAlone(int64_t d, const std::string& options = "{}")
      : part(bench.make<Norm>("layer", {.hidden_size = d}, options)) {}
  Tensor operator()(const Tensor& x) const { return part->forward(Var(x)).value(); }
  kit::Bench bench;
  std::unique_ptr<Norm> part;
};

// oracle: norm.layer
TEST(LayerNorm, HasTheTextbooksWorkedExample) {
  const Tensor x = kit::tensor_f64({4, 3}, {1, 1, 2, .9, .9, 0, .7, .8, 0, 3, 1, 7});
  EXPECT_EQ(kit::close_to_printed(LayerNormAlone(3, "{eps: 0.1}")(x),
                                  {-0.583358, -0.583358, 1.166716, 0.572231, 0.572231, -1.144461, 0.438690, 0.658035,
                                   -1.096725, -0.256960, -1.027840, 1.284800},
                                  6),
            "");
  EXPECT_EQ(kit::close_to_printed(LayerNormAlone(3, "{eps: 0.1, eps_mode: variance}")(x.slice(0, 1)),
                                  {-0.587220, -0.587220, 1.174440}, 6),
            "");
}

TEST(LayerNorm, IsInvariantToShiftsAndWithoutEpsToScales) {
  const Tensor x = kit::normal({5, 7}, DType::f64, 1);
  Tensor shifted = clone(x), scaled = clone(x);
  for (int64_t i = 0; i < x.numel(); ++i)
    set_value(shifted, i, value_at(x, i) + 3), set_value(scaled, i, value_at(x, i) * 8);
  for (const char* mode : {"sigma", "variance"}) {
    LayerNormAlone layer(7, cat("{eps: 0.1, eps_mode: ", mode, "}")), bare(7, cat("{eps: 0, eps_mode: ", mode, "}"));
    EXPECT_EQ(kit::close(layer(shifted), layer(x), 40), "") << mode;
    EXPECT_EQ(kit::close(bare(scaled), bare(x), 8), "") << mode;
    EXPECT_NE(kit::close(layer(scaled), layer(x), 1e10), "") << mode;  // eps > 0 sees the scale
  }
}

TEST(LayerNorm, AConstantRowGivesTheBias) {
  LayerNormAlone layer(4);
  kit::assign(layer.bench["part.bias"], {1, -2, 0.5, 7});
  kit::assign(layer.bench["part.weight"], {3, 1, 4, 1});
  EXPECT_EQ(kit::bit_difference(layer(kit::tensor_f64({1, 4}, {5, 5, 5, 5})), kit::tensor_f64({1, 4}, {1, -2, 0.5, 7})),
            "");
}

TEST(LayerNorm, InputGradientsOfARowSumToZero) {
  for (const char* mode : {"sigma", "variance"}) {
    LayerNormAlone layer(6, cat("{eps_mode: ", mode, "}"));
    kit::randomise(layer.bench.parameters(), 2);
    const Var x = Var::leaf(kit::normal({4, 6}, DType::f64, 3));
    {
      Tape tape;
      tape.backward(layer.part->forward(x), kit::normal({4, 6}, DType::f64, 4));
    }
    for (int64_t n = 0; n < 4; ++n) {
      double sum = 0, size = 0;
      for (int64_t c = 0; c < 6; ++c)
        sum += value_at(x.grad(), n * 6 + c), size += std::abs(value_at(x.grad(), n * 6 + c));
      EXPECT_LE(std::abs(sum), 32 * 0x1p-53 * (1 + size)) << mode << " row " << n;
    }
  }
}

TEST(LayerNorm, ScalesAndShiftsEachChannel) {
  LayerNormAlone layer(3, "{eps: 0.1}");
  kit::assign(layer.bench["part.weight"], {2, -1, 0.5});
  kit::assign(layer.bench["part.bias"], {1, 0, -1});
  EXPECT_EQ(kit::close_to_printed(layer(kit::tensor_f64({1, 3}, {1, 1, 2})),
                                  {1 - 2 * 0.583358, 0.583358, -1 + 0.5 * 1.166716}, 5),
            "");
}

TEST(LayerNorm, HasTwoNumbersAChannelOrOne) {
  for (int64_t d : {1, 8, 33}) {
    EXPECT_EQ(LayerNormAlone(d).bench.parameters().count(), 2 * d);
    EXPECT_EQ(LayerNormAlone(d, "{bias: false}").bench.parameters().count(), d);
  }
}

}  // namespace
}  // namespace lithe
