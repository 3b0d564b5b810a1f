#include "lithe/model/layer_pattern.h"

#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

std::vector<int64_t> standard(const std::string& pattern, int64_t layers = 24) {
  std::vector<int64_t> out;
  const auto kept = standard_layers(pattern, layers);
  for (int64_t i = 0; i < layers; ++i)
    if (kept[size_t(i)]) out.push_back(i + 1);
  return out;
}

std::vector<int64_t> range(int64_t first, int64_t last, int64_t step = 1) {
  std::vector<int64_t> out;
  for (int64_t i = first; i <= last; i += step) out.push_back(i);
  return out;
}

// oracle: decon.config_uniform
TEST(LayerPattern, UniformReplacesEveryLayer) { EXPECT_TRUE(standard("uniform").empty()); }

// oracle: decon.config_hybrid
TEST(LayerPattern, HybridKeepsEvenLayers) { EXPECT_EQ(standard("hybrid"), range(2, 24, 2)); }

// oracle: decon.config_ablation
TEST(LayerPattern, TheNineOfTheAblation) {
  EXPECT_EQ(standard("even"), range(2, 24, 2));
  EXPECT_EQ(standard("odd"), range(1, 23, 2));
  EXPECT_EQ(standard("top"), range(1, 12));
  EXPECT_EQ(standard("bottom"), range(13, 24));
  std::vector<int64_t> outer = range(1, 6);
  for (int64_t i : range(19, 24)) outer.push_back(i);
  EXPECT_EQ(standard("middle"), outer);
  EXPECT_EQ(standard("25%"), range(4, 24, 4));
  EXPECT_EQ(standard("first"), range(1, 1));
  EXPECT_EQ(standard("last"), range(24, 24));
  EXPECT_EQ(standard("bilateral"), (std::vector<int64_t>{1, 24}));
}

std::string hybrid(const std::string& more) {
  return "{vocab_size: 19, hidden_size: 12, num_hidden_layers: 4, max_position_embeddings: 9, ffn: {type: relu, "
         "intermediate_size: 10}, " +
         more + "}";
}
const std::string kMixers =
    "mixers: {standard: {type: attention, num_attention_heads: 3}, replaced: {type: attention, num_attention_heads: 3, "
    "heads: mqa}}, ";

std::unique_ptr<Model> built(const std::string& more) {
  auto model = std::make_unique<Model>(kit::model_config(hybrid(more)),
                                       ModelOptions{.dtype = DType::f64, .compute = DType::f64});
  kit::randomise(model->parameters(), 1);
  return model;
}

TEST(LayerPattern, NamesTheMixersOfAModel) {
  const ModelConfig config = kit::model_config(hybrid(kMixers + "layer_pattern: hybrid"));
  EXPECT_EQ(config.layer(0).mixer()->options.find("heads")->find("type")->text(), "mqa");
  EXPECT_EQ(config.layer(1).mixer()->options.find("heads")->find("type")->text(), "mha");
  EXPECT_EQ(config.layers_named("replaced"), (std::vector<int64_t>{0, 2}));
  EXPECT_EQ(config.layers_named("4,1,4"), (std::vector<int64_t>{0, 3}));
  EXPECT_THROW(config.layers_named("5"), Error);
  EXPECT_THROW(config.layers_named("sometimes"), Error);
  EXPECT_THROW(kit::model_config(hybrid("layer_pattern: sideways")), Error);
  EXPECT_THROW(built("layer_pattern: hybrid"), Error);  // no mixers
}

// oracle: decon.config_skip
TEST(LayerPattern, SkippedLayersAreAsIfTheyWereNotThere) {
  const auto whole = built(kMixers + "layer_pattern: hybrid"), skipping = built(kMixers + "layer_pattern: hybrid");
  skipping->skip(skipping->config().layers_named("replaced"), false);
  const Tensor ids = kit::random_ids(7, 19, 3);
  const Sequences sequences = Sequences::single(7);
  const Tensor got = kit::forward(*skipping, ids, sequences).value();
  // A standard model of half the layers with the even layers' weights.
  auto half = std::make_unique<Model>(
      kit::model_config(
          "{vocab_size: 19, hidden_size: 12, num_hidden_layers: 2, max_position_embeddings: 9, ffn: {type: "
          "relu, intermediate_size: 10}, mixer: {type: attention, num_attention_heads: 3}}"),
      ModelOptions{.dtype = DType::f64, .compute = DType::f64});
  for (Parameter& p : half->parameters().all()) {
    std::string name = p.name;
    if (name.starts_with("layers.")) name[7] = name[7] == '0' ? '1' : '3';
    kit::assign(p.master.value(), whole->parameters().find(name)->master.value());
  }
  EXPECT_EQ(kit::bit_difference(got, kit::forward(*half, ids, sequences).value()), "");
  // Counter-check: the layers did something.
  EXPECT_GT(kit::largest_difference(got, kit::forward(*whole, ids, sequences).value()), 1e-3);
  // Caches of the layers that are left, and cached decoding without the others.
  EXPECT_EQ(skipping->state_bytes({7}), half->state_bytes({7}));
  const auto state = skipping->make_state(1, 9);
  for (int64_t t = 0; t < 7; ++t) {
    const Tensor row =
        kit::forward(*skipping, clone(ids.slice(t, t + 1)), skipping->continue_sequences(*state, {1}), state.get())
            .value();
    EXPECT_EQ(kit::close(row, clone(got.slice(t, t + 1)), 64), "");
  }
  // The mixer alone: the same as mixers that give nothing.
  const auto quiet = built(kMixers + "layer_pattern: hybrid"), without = built(kMixers + "layer_pattern: hybrid");
  without->skip({0, 2}, true);
  for (const char* name : {"layers.0.mixer.output.weight", "layers.2.mixer.output.weight"})
    fill_zero(quiet->parameters().find(name)->master.value());
  EXPECT_EQ(
      kit::close(kit::forward(*without, ids, sequences).value(), kit::forward(*quiet, ids, sequences).value(), 16), "");
}

}  // namespace
}  // namespace lithe
