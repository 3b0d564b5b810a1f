#include <gtest/gtest.h>

#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

constexpr int64_t kFusedWidth = 4, kFusedLayers = 3;

// Layers x + silu(x W) with a matrix each, or silu(x W) alone.
struct Three final : Layers {
  bool residual = true;
  int64_t count() const override { return kFusedLayers; }
  Var added(int64_t layer, const Var& x) const {
    return activate(kernels::Activation::silu,
                    linear(x, Var(kit::normal({kFusedWidth, kFusedWidth}, DType::f64, 20 + uint64_t(layer)))));
  }
  Rows run(int64_t layer, const Rows& x, const Pass&, const std::vector<double>&) const override {
    const Var y = added(layer, x.x);
    return {residual ? add(x.x, y) : y, x.sequences};
  }
  void skip(int64_t, const Rows&, const Pass&) const override {}
  int64_t sub_layers(int64_t) const override { return 1; }
  Var change(int64_t layer, int64_t, const Rows& x, const Pass&) const override { return added(layer, x.x); }
};

struct Fused {
  explicit Fused(const std::string& options)
      : part(bench.make<Stack>("fusion", {.hidden_size = kFusedWidth, .num_hidden_layers = kFusedLayers}, options)) {}
  Tensor operator()(const Layers& layers, const Tensor& x) const {
    return part->forward(layers, {Var(x), Sequences::single(x.rows())}, Pass()).x.value();
  }
  void weigh(int64_t layer, const std::vector<double>& weights) {
    kit::assign(bench[cat("part.", layer, ".weights")], weights);
  }
  kit::Bench bench;
  std::unique_ptr<Stack> part;
};

const Tensor& fusion_rows() {
  static const Tensor x = kit::normal({5, kFusedWidth}, DType::f64, 1);
  return x;
}

Tensor normed(const Var& x) {
  static kit::Bench bench;
  static const auto norm = bench.make<Norm>("layer", {.hidden_size = kFusedWidth});
  return norm->forward(x).value();
}

// oracle: fuse.pre
TEST(Fusion, WithOnesOnTheLastTwoIsTheResidualStack) {
  Fused fused("{form: pre, phi: weighted}");
  for (int64_t l = 0; l < kFusedLayers; ++l) {
    std::vector<double> weights(size_t(l) + 2, 0);
    weights[size_t(l)] = weights[size_t(l) + 1] = 1;  // z_{l-1} and F
    fused.weigh(l, weights);
  }
  Three layers;
  Var plain(fusion_rows());
  for (int64_t l = 0; l < kFusedLayers; ++l) plain = layers.run(l, {plain, Sequences::single(5)}, Pass(), {}).x;
  EXPECT_LE(kit::largest_difference(fused(layers, fusion_rows()), plain.value()), 1e-13);
}

// oracle: fuse.post
TEST(Fusion, PostWithOnesOnTheLastTwoIsPostNorm) {
  Fused fused("{form: post, phi: weighted}");
  for (int64_t l = 0; l < kFusedLayers; ++l) {
    std::vector<double> weights(size_t(l) + 2, 0);
    weights[size_t(l)] = weights[size_t(l) + 1] = 1;
    fused.weigh(l, weights);
  }
  const Three layers;
  Tensor post = fusion_rows();
  for (int64_t l = 0; l < kFusedLayers; ++l) post = normed(add(Var(post), layers.added(l, Var(post))));
  EXPECT_LE(kit::largest_difference(fused(layers, fusion_rows()), post), 1e-13);
}

// oracle: fuse.dense
TEST(Fusion, DenseThatSelectsTheLayerBelowIsAStackWithoutResiduals) {
  Fused fused("{form: dense, phi: weighted}");
  for (int64_t l = 0; l < kFusedLayers; ++l) {
    std::vector<double> weights(size_t(l) + 1, 0);
    weights.back() = 1;
    fused.weigh(l, weights);
  }
  Three layers;
  layers.residual = false;
  Tensor want = fusion_rows();
  for (int64_t l = 0; l < kFusedLayers; ++l) want = normed(layers.added(l, Var(want)));
  EXPECT_LE(kit::largest_difference(fused(layers, fusion_rows()), want), 1e-13);
}

// oracle: fuse.phi
TEST(Fusion, WeightsStartAsTheMean) {
  for (const std::string form : {"pre", "post", "dense"})
    EXPECT_LE(kit::largest_difference(Fused("{phi: weighted, form: " + form + "}")(Three(), fusion_rows()),
                                      Fused("{phi: avg, form: " + form + "}")(Three(), fusion_rows())),
              1e-14);
}

// W = [I ... I] / n without a kink: positive rows and biases keep relu open.
// oracle: fuse.phi
TEST(Fusion, AFeedForwardOfIdentitiesIsTheMean) {
  Fused ffn("{form: pre, phi: ffn, top: 1}"), avg("{form: pre, phi: avg, top: 1}");
  const int64_t n = kFusedLayers + 1;
  Tensor up = ffn.bench["part.2.up.weight"], down = ffn.bench["part.2.down.weight"];
  fill_zero(up), fill_zero(down);
  for (int64_t i = 0; i < n * kFusedWidth; ++i) set_value(up, i * kFusedWidth + i % kFusedWidth, 1 / double(n));
  for (int64_t i = 0; i < kFusedWidth; ++i) set_value(down, i * kFusedWidth + i, 1);
  kit::assign(ffn.bench["part.2.up.bias"], std::vector<double>(kFusedWidth, 100));
  kit::assign(ffn.bench["part.2.down.bias"], std::vector<double>(kFusedWidth, -100));
  EXPECT_LE(kit::largest_difference(ffn(Three(), fusion_rows()), avg(Three(), fusion_rows())), 1e-12);
}

// oracle: fuse.phi
TEST(Fusion, SelfAttentionOverLayersIsPerToken) {
  Fused fused("{phi: selfattn}");
  kit::randomise(fused.bench.parameters(), 3);
  const Tensor all = fused(Three(), fusion_rows());
  const std::vector<int64_t> order{3, 0, 4, 1, 2};
  EXPECT_EQ(kit::bit_difference(fused(Three(), kit::rows_of(fusion_rows(), order)), kit::rows_of(all, order)), "");
}

// oracle: fuse.phi
// oracle: fuse.pre
// oracle: fuse.post
TEST(Fusion, CountsItsParameters) {
  const auto count = [](const std::string& options) { return Fused(options).bench.parameters().count(); };
  EXPECT_EQ(count("{phi: avg}"), 0);
  EXPECT_EQ(count("{form: dense}"), kFusedLayers * (kFusedLayers + 1) / 2 + kFusedLayers * 2 * kFusedWidth);
  EXPECT_EQ(count("{form: post}"),
            kFusedLayers * (kFusedLayers + 1) / 2 + kFusedLayers + kFusedLayers * 2 * kFusedWidth);
  int64_t ffn = 0;
  for (int64_t n = 2; n <= kFusedLayers + 1; ++n) ffn += n * kFusedWidth * 7 + 7 + 7 * kFusedWidth + kFusedWidth;
  EXPECT_EQ(count("{phi: ffn, intermediate_size: 7}"), ffn);
  EXPECT_EQ(count("{phi: selfattn, intermediate_size: 7}"), ffn + kFusedLayers * 4 * kFusedWidth * kFusedWidth);
}

// oracle: fuse.sparse_top
TEST(Fusion, OfNoLayerIsThePlainStack) {
  Fused none("{top: 0}"), last("{top: 1}");
  EXPECT_EQ(none.bench.parameters().count(), 0);
  EXPECT_EQ(last.bench.parameters().count(), kFusedLayers + 1);
  kit::Bench bench;
  const auto plain = bench.make<Stack>("plain", {.hidden_size = kFusedWidth, .num_hidden_layers = kFusedLayers});
  const Three layers;
  const Rows x{Var(fusion_rows()), Sequences::single(5)};
  EXPECT_EQ(kit::bit_difference(none(layers, fusion_rows()), plain->forward(layers, x, Pass()).x.value()), "");
  // A one among zeros picks a layer: the first one's result.
  last.weigh(kFusedLayers - 1, {0, 1, 0, 0});
  EXPECT_EQ(kit::bit_difference(last(layers, fusion_rows()), layers.run(0, x, Pass(), {}).x.value()), "");
}

// oracle: fuse.dense
TEST(Fusion, TheFirstDenseLayerReadsTheEmbeddedRowsAndAllLayersReachThem) {
  kit::Bench bench;
  const auto one =
      bench.make<Stack>("fusion", {.hidden_size = kFusedWidth, .num_hidden_layers = 1}, "{form: dense, phi: avg}");
  struct One final : Layers {
    int64_t count() const override { return 1; }
    Rows run(int64_t, const Rows& x, const Pass&, const std::vector<double>&) const override { return x; }
    void skip(int64_t, const Rows&, const Pass&) const override {}
    int64_t sub_layers(int64_t) const override { return 1; }
    Var change(int64_t, int64_t, const Rows& x, const Pass&) const override { return x.x; }
  } layers;
  EXPECT_EQ(kit::bit_difference(one->forward(layers, {Var(fusion_rows()), Sequences::single(5)}, Pass()).x.value(),
                                normed(Var(fusion_rows()))),
            "");
}

}  // namespace
}  // namespace lithe
