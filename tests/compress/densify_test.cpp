#include "lithe/compress/densify.h"

#include <gtest/gtest.h>

#include "tests/compress/compress_kit.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

// Folded weights are rounded to f32 (2^29 roundings of f64), through products, softmax and norms of two layers.
constexpr double kRounded = 16 * 0x1p29;

std::map<std::string, Tensor> random_parameters(const ModelConfig& config, uint64_t seed = 3) {
  Model model(config, {});
  kit::randomise(model.parameters(), seed);
  std::map<std::string, Tensor> out;
  for (const Parameter& p : model.parameters().all()) out[p.name] = p.master.value();
  return out;
}

Tensor logits(const ModelConfig& config, const std::map<std::string, Tensor>& parameters) {
  const NoGrad no_grad;
  const auto model = exact_model(config, parameters);
  const kit::Batch batch = kit::random_batch({5, 9}, 11, 4);
  return kit::logits(*model, batch.ids, batch.sequences).value();
}

std::string mixer(const std::string& options) {
  return "mixer: {type: attention, num_attention_heads: 4, " + options + "}";
}

// The folded model is of plain parts and gives the same logits; its weights were rounded to f32 once.
void expect_folds(const ModelConfig& config, const std::string& heads) {
  const auto before = random_parameters(config);
  const Densified d = densify(config, before);
  EXPECT_LE(d.largest_difference, 1e-10);
  EXPECT_EQ(d.folded.size(), 2u);
  for (int64_t i : {0, 1}) {
    const LayerConfig layer = d.config.layer(i);
    EXPECT_EQ(layer.mixer()->options.find("output")->find("type")->text(), "dense");
    EXPECT_EQ(layer.mixer()->options.find("heads")->find("type")->text(), heads);
  }
  EXPECT_EQ(kit::close(logits(d.config, d.parameters), logits(config, before), kRounded), "");
}

TEST(Densify, HadamardOutputsBecomeMatrices) {
  expect_folds(kit::model_config(kSmall, mixer("output: hadamard")), "mha");
  expect_folds(kit::model_config(kSmall, mixer("output: hadamard, heads: {type: gqa, num_key_value_heads: 2}")), "gqa");
  expect_folds(kit::model_config(kSmall, mixer("output: {type: hadamard, transform: pad, scale: one}")), "mha");
}

// oracle: share.layers
TEST(Densify, SharedLayersGetCopiesOfTheirOwn) {
  for (const std::string parts : {"layer", "mixer", "ffn"})
    for (const std::string share : {"layers: all", "layers: cycle, distinct: 2", "layers: groups, groups: [1, 2, 2]"}) {
      const ModelConfig config =
          kit::model_config(kSmall, cat("num_hidden_layers: 3, share: {", share, ", parts: ", parts, "}"));
      const auto before = random_parameters(config);
      const Densified d = densify(config, before);
      EXPECT_EQ(d.config.share.layers, "none");
      EXPECT_EQ(d.largest_difference, 0) << share;
      EXPECT_EQ(d.parameters_after, Model(d.config, {}).parameters().count());
      EXPECT_GT(d.parameters_after, d.parameters_before);
      EXPECT_EQ(d.folded.size(), share == "layers: all" ? 2u : 1u);
      EXPECT_EQ(kit::bit_difference(logits(d.config, d.parameters), logits(config, before)), "") << share;
    }
}

TEST(Densify, HeadEmbeddingsBecomeHeads) {
  for (const char* heads : {"mhe_mul", "mhe_add"}) {
    // Positions that turn heads need each head's keys; without them one key serves all.
    expect_folds(kit::model_config(kSmall, mixer(cat("heads: ", heads))), "mha");
    expect_folds(kit::model_config(kSmall, mixer(cat("heads: ", heads)) + ", position: learned"), "gqa");
    expect_folds(kit::model_config(kSmall, mixer(cat("output: hadamard, attention_bias: true, heads: ", heads))),
                 "mha");
  }
}

TEST(Densify, OtherHeadsFoldToo) {
  expect_folds(kit::model_config(kSmall, mixer("heads: el_att")), "mha");
  expect_folds(kit::model_config(kSmall, mixer("heads: skv")), "mha");
  expect_folds(kit::model_config(kSmall, mixer("heads: sha")), "mha");
}

// Another way to compute mha: the weights stay.
TEST(Densify, RewrittenHeadsAreMha) {
  for (const char* more : {"", ", attention_bias: true, output_bias: true", ", output: hadamard"}) {
    const std::string options = cat("heads: el_rewrite", more);
    expect_folds(kit::model_config(kSmall, mixer(options) + ", position: learned"), "mha");
  }
  const ModelConfig config = kit::model_config(kSmall, mixer("heads: el_rewrite") + ", position: sinusoidal");
  const auto before = random_parameters(config);
  const Densified d = densify(config, before);
  EXPECT_EQ(d.parameters.size(), before.size());
  for (const auto& [name, value] : before) EXPECT_EQ(kit::bit_difference(d.parameters.at(name), value), "") << name;
}

TEST(Densify, HybridsKeepTheirPlainLayers) {
  const ModelConfig config = kit::model_config(kSmall,
                                               "mixers: {plain: {type: attention, num_attention_heads: 4}, novel: "
                                               "{type: attention, num_attention_heads: 4, heads: "
                                               "mhe_add, output: hadamard}}, layer_types: [plain, novel]");
  const auto before = random_parameters(config);
  const Densified d = densify(config, before);
  EXPECT_EQ(d.folded, (std::vector<std::string>{"layers.1.mixer: heads mhe_add, output hadamard -> mha, dense"}));
  EXPECT_EQ(
      kit::bit_difference(d.parameters.at("layers.0.mixer.heads.q.weight"), before.at("layers.0.mixer.heads.q.weight")),
      "");
  EXPECT_EQ(kit::close(logits(d.config, d.parameters), logits(config, before), kRounded), "");
}

TEST(Densify, MixersOfSubLayersFoldToo) {
  expect_folds(kit::model_config(kSmall,
                                 "layers: {a: {sub_layers: [{mixer: {type: attention, num_attention_heads: 4, output: "
                                 "hadamard}}, ffn]}}, layer_types: [a, a]"),
               "mha");
}

TEST(Densify, PlainModelsStayAsTheyAre) {
  const ModelConfig config = kit::model_config(kSmall);
  const auto before = random_parameters(config);
  const Densified d = densify(config, before);
  EXPECT_TRUE(d.folded.empty());
  EXPECT_EQ(d.parameters.size(), before.size());
  for (const auto& [name, value] : before) EXPECT_EQ(kit::bit_difference(d.parameters.at(name), value), "") << name;
}

TEST(Densify, WhatDoesNotFoldIsRefusedByName) {
  const std::pair<std::string, const char*> cases[] = {
      {"mixer: nonapprox", "layers.0.mixer: mixer nonapprox is no attention and has no standard form"},
      {mixer("heads: static_emb_qk"), "layers.0.mixer: heads read the embedding"},
      {mixer("heads: {type: mhe_mul, rope_order: before, head_embedding_std: 0.5}"),
       "these parts do not fold exactly"}};
  for (const auto& [change, words] : cases) {
    const ModelConfig config = kit::model_config(kSmall, change);
    const std::string error = kit::coded_error_of([&] { densify(config, random_parameters(config)); });
    EXPECT_TRUE(error.starts_with("2 densify: ")) << error;
    EXPECT_NE(error.find(words), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace lithe
