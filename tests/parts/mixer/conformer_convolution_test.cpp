#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

// oracle: arch.conformer
TEST(ConformerConvolutionMixer, OneTapOfOneIsAGatedFeedForwardLayer) {
  kit::Bench bench;
  const auto mixer = bench.make<Mixer>("conformer_convolution", {.hidden_size = 4}, "{kernel_size: 1}");
  kit::randomise(bench.parameters(), 2);
  for (int64_t c = 0; c < 4; ++c) set_value(bench["part.taps"], c, 1);
  fill_zero(bench["part.bias"]);
  const Tensor x = kit::normal({5, 4}, DType::f64, 1);
  const Tensor whole = mixer->forward({Var(x), Sequences::single(5), nullptr}).value();
  for (int64_t t = 0; t < 5; ++t)  // no row sees another
    EXPECT_EQ(kit::close(mixer->forward({Var(clone(x.slice(t, t + 1))), Sequences::single(1), nullptr}).value(),
                         clone(whole.slice(t, t + 1)), 16),
              "");
}

// oracle: arch.conformer
TEST(ConformerConvolutionMixer, ParametersAreThoseOfTheModule) {
  for (const int64_t d : {4, 6, 9}) {
    kit::Bench bench;
    bench.make<Mixer>("conformer_convolution", {.hidden_size = d});
    EXPECT_EQ(bench.parameters().count(), (2 * d * d + 2 * d) + (31 * d + d) + (d * d + d) + 2 * d);
  }
}

// oracle: arch.conformer
TEST(ConformerConvolutionMixer, ABlockListsItsSubLayersWithHalves) {
  const ModelConfig config = kit::model_config(
      "{vocab_size: 11, hidden_size: 8, num_hidden_layers: 1, max_position_embeddings: 12, norm: layer, mixer: {type: "
      "attention, num_attention_heads: 2}, ffn: {type: gelu, intermediate_size: 16}, layers: {conformer: {sub_layers: "
      "[{ffn: {type: gelu, intermediate_size: 16}, scale: 0.5}, mixer, {mixer: {type: conformer_convolution, "
      "kernel_size: 3}}, "
      "{ffn: {type: gelu, intermediate_size: 16}, scale: 0.5}]}}, layer_types: [conformer]}");
  const Model model(config, ModelOptions{.dtype = DType::f64, .compute = DType::f64, .trainable = true});
  const LayerConfig layer = config.layer(0);
  ASSERT_EQ(layer.sub_layers.size(), 4u);
  EXPECT_EQ(layer.sub_layers[0].scale, 0.5);
  EXPECT_EQ(layer.sub_layers[2].part.type, "conformer_convolution");
  const kit::Batch batch = kit::random_batch({5}, 11, 1);
  EXPECT_EQ(kit::forward(model, batch).rows(), 5);
}

}  // namespace
}  // namespace lithe
