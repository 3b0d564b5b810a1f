#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

// Layers that note their number and hand on their rows.
struct Noted final : Layers {
  mutable std::vector<int64_t> ran;
  int64_t count() const override { return 4; }
  Rows run(int64_t layer, const Rows& x, const Pass&, const std::vector<double>& gains) const override {
    EXPECT_TRUE(gains.empty());
    ran.push_back(layer);
    return x;
  }
  void skip(int64_t, const Rows&, const Pass&) const override { FAIL(); }
  int64_t sub_layers(int64_t) const override { return 2; }
  Var change(int64_t, int64_t, const Rows&, const Pass&) const override { return {}; }
};

TEST(PlainStack, RunsEachLayerOnceInOrder) {
  kit::Bench bench;
  const auto part = bench.make<Stack>("plain", {.hidden_size = 4, .num_hidden_layers = 4});
  EXPECT_EQ(part->layer_width(4), 4);
  EXPECT_FALSE(part->wires());
  const Noted layers;
  const Tensor x = kit::normal({3, 4}, DType::f32, 1);
  const Rows y = part->forward(layers, {Var(x), Sequences::single(3)}, Pass());
  EXPECT_EQ(layers.ran, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(kit::bit_difference(y.x.value(), x), "");
}

}  // namespace
}  // namespace lithe
