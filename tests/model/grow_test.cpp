#include "lithe/model/grow_check.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

ModelConfig grow_config(const std::string& more = "") {
  return kit::model_config(
      "{hidden_size: 8, num_hidden_layers: 3, vocab_size: 11, max_position_embeddings: 20, position: rotary, mixer: "
      "{type: attention, num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 6}}",
      more);
}

// Models that read columns of a treebank.
const char* const kTrees =
    "embedding: {type: tag_sum, tags: {upos: 3}}, mixer: {type: attention, num_attention_heads: 2, field: {type: tree, "
    "max_distance: 2}}";
const char* const kParser =
    "architecture: encoder, head: {type: tag}, num_labels: 3, tie_word_embeddings: false, mixer: {type: attention, "
    "num_attention_heads: 2, field: {type: tree, tree: parser, weight: probability, apply: log_add}}";

std::unique_ptr<Model> trained(const ModelConfig& c) {
  auto model = std::make_unique<Model>(c, kit::kExact);
  kit::randomise(model->parameters(), 3);
  return model;
}

// oracle: grow.depth_stack
TEST(Grow, NewLayersAreCopiesOfTheOldOnes) {
  const auto model = trained(grow_config());
  Model grown(deepened(model->config(), 6), kit::kExact);
  grow_depth(*model, grown, false);
  int64_t of_layers = 0;
  for (const Parameter& p : model->parameters().all()) {
    EXPECT_EQ(kit::bit_difference(grown.parameters().find(p.name)->master.value(), p.master.value()), "");
    if (!p.name.starts_with("layers.")) continue;
    of_layers += p.master.value().numel();
    const std::string copy = cat("layers.", 3 + p.name[7] - '0', p.name.substr(8));
    EXPECT_EQ(kit::bit_difference(grown.parameters().find(copy)->master.value(), p.master.value()), "") << copy;
  }
  EXPECT_EQ(grown.parameters().count(), model->parameters().count() + of_layers);
  EXPECT_EQ(deepened(deepened(deepened(model->config(), 6), 12), 24).num_hidden_layers, 24);
}

// oracle: grow.depth_stack
TEST(Grow, NewLayersThatAddNothingKeepTheFunction) {
  for (const std::string more :
       {"", "ffn: swiglu", "ffn: {type: moe, num_experts: 3, moe_intermediate_size: 4}", "mixer: mlp",
        "norm: rms, mixer: {type: attention, num_attention_heads: 4, heads: {type: gqa, num_key_value_heads: 2}}",
        "mixer: {type: attention, num_attention_heads: 2, output: hadamard}", kTrees, kParser}) {
    const auto model = trained(grow_config(more));
    Model grown(deepened(model->config(), 9), kit::kExact), copied(model->config(), kit::kExact);
    grow_depth(*model, grown, true);
    EXPECT_EQ(difference_of_predictions(*model, grown), 0) << more;
  }
  const auto model = trained(grow_config());
  Model grown(deepened(model->config(), 6), kit::kExact);
  grow_depth(*model, grown, false);
  EXPECT_GT(difference_of_predictions(*model, grown), 1e-3);
}

// oracle: grow.width_tile
TEST(Grow, AWiderNetworkHasTheSameLogits) {
  for (const std::string more :
       {"", "position: learned, norm: rms, ffn: swiglu, tie_word_embeddings: false", "residual: post, ffn: gelu",
        "ffn: {type: moe, num_experts: 3}", "mixer: {type: attention, num_attention_heads: 2, heads: mqa}",
        "mixer: {type: attention, num_attention_heads: 4, heads: {type: gqa, num_key_value_heads: 2}}",
        "mixer: {type: attention, num_attention_heads: 2, heads: mhe_mul}, position: none",
        "layers: {a: {ffn: geglu}, b: {mixer: {type: linear_attention, num_attention_heads: 2}}}, "
        "layer_types: [a, b, a]",
        "mixers: {a: {type: attention, num_attention_heads: 2}, b: {type: selective_ssm, num_heads: 2, state_size: "
        "3}}, "
        "layer_types: [a, b, a]",
        kTrees, kParser})
    for (const int64_t factor : {1, 2, 3}) {
      const auto model = trained(grow_config(more));
      Model grown(widened(model->config(), factor), kit::kExact);
      EXPECT_EQ(grown.config().hidden_size, 8 * factor);
      grow_width(*model, grown, 0, 0);
      EXPECT_LE(difference_of_predictions(*model, grown), factor == 1 ? 0 : 1e-12) << factor << " " << more;
    }
}

// The largest column sum stays, the sum of all entries grows by the factor.
// oracle: grow.width_tile
TEST(Grow, TilesKeepTheNormOfAMatrix) {
  const auto model = trained(grow_config());
  Model grown(widened(model->config(), 2), kit::kExact);
  grow_width(*model, grown, 0, 0);
  const auto sums = [](const Model& m) {
    const Tensor w = const_cast<Model&>(m).parameters().find("layers.1.ffn.up.weight")->master.value();  // NOLINT
    double largest = 0, all = 0;
    for (int64_t c = 0; c < w.cols(); ++c) {
      double column = 0;
      for (int64_t r = 0; r < w.rows(); ++r) column += std::abs(value_at(w, r * w.cols() + c));
      largest = std::max(largest, column), all += column;
    }
    return std::pair{largest, all};
  };
  EXPECT_NEAR(sums(grown).first, sums(*model).first, 1e-12);
  EXPECT_NEAR(sums(grown).second, 2 * sums(*model).second, 1e-12);
}

TEST(Grow, NoiseTellsCopiesApart) {
  const auto model = trained(grow_config());
  Model grown(widened(model->config(), 2), kit::kExact);
  grow_width(*model, grown, 0.01, 1);
  const double apart = difference_of_predictions(*model, grown);
  EXPECT_GT(apart, 1e-6);
  EXPECT_LT(apart, 0.5);
}

TEST(Grow, RefusesWhatDoesNotGrow) {
  EXPECT_EQ(kit::coded_error_of([] { deepened(grow_config(), 7); }),
            "2 grow: the model has 3 layers; give a multiple of that, not 7");
  const auto fused = trained(grow_config("stack: fusion"));
  Model grown(deepened(fused->config(), 6), kit::kExact);
  EXPECT_EQ(kit::coded_error_of([&] { grow_depth(*fused, grown, false); }),
            "2 grow: the smaller model has no parameter 'stack.3.weights' to grow from");
}

TEST(Grow, NamesThePartThatChangesTheFunction) {
  const auto refused = [](const std::string& more, const KeptGrowth& how, const std::string& part) {
    const std::string error = kit::coded_error_of([&] { check_growth(grow_config(more), how, "train.growth"); });
    EXPECT_TRUE(error.starts_with("2 train.growth: ") && error.find(part) != std::string::npos) << more << error;
  };
  const KeptGrowth wider{.width = 2}, deeper{.layers = 6};
  for (const KeptGrowth& how : {wider, deeper}) EXPECT_NO_THROW(check_growth(grow_config(), how, "train.growth"));
  EXPECT_NO_THROW(check_growth(grow_config("position: t5_bias"), wider, "train.growth"));
  refused("position: alibi", wider, ": model.position alibi does not grow wider");
  refused("position: sinusoidal", wider, ": model.position sinusoidal does not grow wider");
  refused("mixer: {type: attention, num_attention_heads: 2, field: {type: random, tokens: 1}}", wider,
          ": model.mixer.field random does not grow wider");
  refused("layers: {a: {}, b: {mixer: gru}}, layer_types: [a, a, b]", deeper, ": model.layers.b.mixer gru ");
  refused("residual: post", deeper, ": model.residual post ");
  refused("mixer: {type: attention, num_attention_heads: 2, output: none}", deeper, ": model.mixer.output none ");
}

}  // namespace
}  // namespace lithe
