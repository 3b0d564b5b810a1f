#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

// Two layers of two sub-layers, each of which adds its own factor times the rows that it reads; the last adds nothing.
struct Factors final : Layers {
  int64_t count() const override { return 2; }
  Rows run(int64_t, const Rows& x, const Pass&, const std::vector<double>&) const override {
    ADD_FAILURE() << "ran a whole layer";
    return x;
  }
  void skip(int64_t, const Rows&, const Pass&) const override {}
  int64_t sub_layers(int64_t) const override { return 2; }
  Var change(int64_t layer, int64_t sub, const Rows& x, const Pass&) const override {
    const double factor[2][2] = {{1, 3}, {0.5, 0}};
    if (factor[layer][sub] == 0) return {};
    return Var(kit::product(x.x.value(), kit::tensor_f64({1, 1}, {factor[layer][sub]})));
  }
};

TEST(ParallelStack, SubLayersOfALayerReadTheSameRows) {
  kit::Bench bench;
  const auto part = bench.make<Stack>("parallel", {.hidden_size = 1, .num_hidden_layers = 2});
  EXPECT_TRUE(part->wires());
  const Tensor x = kit::tensor_f64({2, 1}, {1, -2});
  const Rows y = part->forward(Factors(), {Var(x), Sequences::single(2)}, Pass());
  // x (1 + 1 + 3) (1 + 0.5); one after another they would give 1 * 2 * 4 * 1.5.
  EXPECT_EQ(kit::values(y.x.value()), (std::vector<double>{7.5, -15}));
}

TEST(ParallelStack, WithOneSubLayerIsThePlainStack) {
  const std::string base =
      "{vocab_size: 7, hidden_size: 8, num_hidden_layers: 2, max_position_embeddings: 6, layers: {a: {sub_layers: "
      "[ffn]}}, layer_types: [a, a], ffn: {type: relu}}";
  Model plain(kit::model_config(base), {.dtype = DType::f64, .compute = DType::f64});
  Model parallel(kit::model_config(base, "stack: parallel"), {.dtype = DType::f64, .compute = DType::f64});
  kit::copy_values(parallel.parameters(), plain.parameters());
  const kit::Batch batch = kit::random_batch({3, 2}, 7, 1);
  EXPECT_EQ(kit::bit_difference(kit::forward(parallel, batch.ids, batch.sequences).value(),
                                kit::forward(plain, batch.ids, batch.sequences).value()),
            "");
}

TEST(ParallelStack, NeedsAResidualThatAdds) {
  EXPECT_THROW(Model(kit::model_config("{vocab_size: 7, hidden_size: 8, num_hidden_layers: 1, "
                                       "max_position_embeddings: 6, stack: parallel, residual: post}"),
                     {}),
               Error);
}

}  // namespace
}  // namespace lithe
