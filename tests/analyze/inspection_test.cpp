#include "lithe/analyze/inspection.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/analyze/inspection_page.h"
#include "lithe/base/error.h"
#include "tests/support/model_kit.h"
#include "tests/support/text.h"

namespace lithe::analyze {
namespace {

constexpr const char* kText = "abracadabra & <wbr>";

LoadedModel model_of(const std::string& more, uint64_t seed = 1) {
  LoadedModel loaded;
  loaded.tokenizer = make_byte_tokenizer();
  loaded.model = std::make_unique<Model>(
      kit::model_config(
          cat("{hidden_size: 12, num_hidden_layers: 3, vocab_size: 257, max_position_embeddings: 40, position: none, ",
              kit::contains(more, "ffn:") ? "" : "ffn: {type: relu, intermediate_size: 16}, ", more, "}")),
      ModelOptions{.seed = seed});
  kit::randomise(loaded.model->parameters(), seed);
  return loaded;
}

Inspection inspection_of(const std::vector<std::pair<std::string, std::string>>& models, int64_t length = 64) {
  Inspection out;
  for (const auto& [name, config] : models) out.models.push_back(inspect_model(name, model_of(config), kText, length));
  out.count_logits();
  return out;
}

const char* const kMha = "mixer: {type: attention, num_attention_heads: 3}";

TEST(Inspection, HasEveryLayersMapsAndNumbers) {
  const Inspection inspection = inspection_of({{"a", kMha}});
  const ModelView& model = inspection.models[0];
  ASSERT_EQ(model.layers.size(), 3u);
  const int64_t L = int64_t(std::string(kText).size()) + 1;  // and the beginning of a text
  EXPECT_EQ(int64_t(model.tokens.size()), L);
  EXPECT_FALSE(model.cut);
  for (const LayerView& layer : model.layers) {
    EXPECT_EQ(layer.mixer, "mha");
    EXPECT_EQ(layer.maps.heads, 3);
    std::vector<double> mean(size_t(L * L));
    for (int64_t head = 0; head < 3; ++head) {
      const std::vector<double> map = layer.map(head);
      ASSERT_EQ(int64_t(map.size()), L * L);
      for (int64_t i = 0; i < L; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < L; ++j) {
          sum += map[size_t(i * L + j)];
          mean[size_t(i * L + j)] += map[size_t(i * L + j)] / 3;
          if (j > i) {
            EXPECT_EQ(map[size_t(i * L + j)], 0);
          }
        }
        EXPECT_NEAR(sum, 1, double(L) * 0x1p-23);
      }
    }
    EXPECT_EQ(layer.map(-1), mean);
    EXPECT_EQ(layer.logits.pairs, 3 * L * (L + 1) / 2);
    for (size_t i = 1; i < layer.logits.quantiles.size(); ++i)
      EXPECT_LE(layer.logits.quantiles[i - 1], layer.logits.quantiles[i]);
    EXPECT_LE(layer.logits.mean, layer.logits.quantiles.back());
    int64_t counted = 0;
    for (int64_t n : layer.logits.counts) counted += n;
    EXPECT_LE(counted, layer.logits.pairs);
    EXPECT_GE(double(counted), 0.97 * double(layer.logits.pairs));
    EXPECT_GT(layer.numbers.normalised[0], 0);
    EXPECT_LT(layer.numbers.normalised[0], 1);
  }
}

TEST(Inspection, ShowsWhatPartsShowOfThemselves) {
  const Inspection inspection = inspection_of(
      {{"experts", cat(kMha, ", ffn: {type: moe, num_experts: 4, moe_intermediate_size: 8}")}, {"a", kMha}});
  EXPECT_TRUE(inspection.models[1].statistics.empty());
  const Json json = inspection_json(inspection, {}, false);
  double sum = 0;
  for (const Json& share : json["models"][0]["statistics"]["expert_load"]["3"]) sum += share.get<double>();
  EXPECT_NEAR(sum, 1, 1e-12);
  EXPECT_FALSE(json["models"][1].contains("statistics"));
  EXPECT_NE(inspection_table(inspection).find("router_entropy, layer 2: "), std::string::npos);
  EXPECT_NE(inspection_page(inspection, {}).find("Inside the parts of experts"), std::string::npos);
}

TEST(Inspection, EqualLogitsAreTheUniformMap) {
  LoadedModel loaded = model_of(kMha);
  for (Parameter& p : loaded.model->parameters().all())
    if (p.name.find("heads.q.weight") != std::string::npos) fill_zero(p.master.value());
  Inspection inspection{.models = {inspect_model("a", loaded, kText, 64)}};
  inspection.count_logits();
  const double L = double(std::string(kText).size()) + 1;
  for (const LayerView& layer : inspection.models[0].layers) {
    EXPECT_NEAR(layer.numbers.normalised[0], 1, L * L * 0x1p-23);
    EXPECT_NEAR(layer.numbers.normalised[1], 0, L * L * 0x1p-23);
    EXPECT_NEAR(layer.numbers.raw[2], 0, 0x1p-23);
    EXPECT_EQ(layer.logits.quantiles.front(), 0);
    EXPECT_EQ(layer.logits.quantiles.back(), 0);
  }
}

TEST(Inspection, OfATranslatorItIsTheEncoder) {
  LoadedModel loaded = model_of(
      "architecture: encoder_decoder, mixer: {type: attention, num_attention_heads: 3}, encoder: {num_hidden_layers: "
      "2, "
      "mixer: {type: attention, num_attention_heads: 3, heads: sha}}");
  loaded.source_tokenizer = loaded.tokenizer;
  const ModelView view = inspect_model("a", loaded, kText, 64);
  ASSERT_EQ(view.layers.size(), 2u);
  EXPECT_EQ(view.layers[0].mixer, "sha");
  const size_t n = view.tokens.size();
  EXPECT_EQ(n, std::string(kText).size() + 1);  // and what ends a source
  EXPECT_GT(view.layers[0].map(0)[n - 1], 0);   // the first token sees the last
}

TEST(Inspection, LayersWithoutMapsHaveNoNumbers) {
  const Inspection inspection = inspection_of({{"hybrid",
                                                "layer_types: [a, b, a], mixers: {a: {type: attention, "
                                                "num_attention_heads: 3, heads: sha}, b: linear}"}});
  const ModelView& model = inspection.models[0];
  EXPECT_EQ(model.layers[0].mixer, "sha");
  EXPECT_EQ(model.layers[1].mixer, "linear");
  EXPECT_EQ(model.layers[1].maps.heads, 0);
  EXPECT_TRUE(std::isnan(model.layers[1].numbers.raw[0]));
  EXPECT_FALSE(model.layers[1].has_logits);
  EXPECT_GT(model.layers[2].maps.heads, 0);
  const Json json = inspection_json(inspection, {}, true);
  EXPECT_TRUE(json["models"][0]["layers"][1]["indicators"]["sink"].is_null());
  EXPECT_NE(inspection_page(inspection, {}).find("no map of tokens"), std::string::npos);
  EXPECT_NE(inspection_table(inspection).find("linear"), std::string::npos);
}

// oracle: decon.mlp
TEST(Inspection, MixersOfTheStudyHaveTheirMaps) {
  const std::string mixers =
      "layer_types: [mlp, nonapprox, approx], mixers: {mlp: mlp, nonapprox: {type: nonapprox, num_attention_heads: 3}, "
      "approx: {type: approx, num_attention_heads: 3}}";
  const Inspection inspection = inspection_of({{"hybrid", mixers}});
  const auto& layers = inspection.models[0].layers;
  const double L = double(std::string(kText).size()) + 1;
  // No mixing is the identity.
  EXPECT_EQ(layers[0].numbers.raw, (std::array<double, 8>{0, std::sqrt(L), 0, 1 / L, 1, 0, 0, 0}));
  EXPECT_FALSE(layers[0].has_logits);
  // Self-gated weights do not depend on the query: each row is the one before, scaled, and the token itself.
  const std::vector<double> map = layers[1].map(0);
  const size_t n = size_t(L);
  for (size_t i = 2; i < n; ++i)
    EXPECT_NEAR(map[i * n] * map[(i - 1) * n + 1], map[i * n + 1] * map[(i - 1) * n], 0x1p-21);
  EXPECT_TRUE(layers[1].has_logits);
  // Taylor weights are a mean, without a softmax.
  double row = 0;
  for (size_t j = 0; j < n; ++j) row += layers[2].map(1)[(n - 1) * n + j];
  EXPECT_NEAR(row, 1, L * 0x1p-23);
  EXPECT_FALSE(layers[2].has_logits);
}

TEST(Inspection, LongTextsAreCut) {
  EXPECT_EQ(inspection_of({{"a", kMha}}, 5).models[0].tokens.size(), 5u);
  EXPECT_TRUE(inspection_of({{"a", kMha}}, 5).models[0].cut);
  const LoadedModel learned = [] {
    LoadedModel loaded;
    loaded.tokenizer = make_byte_tokenizer();
    loaded.model = std::make_unique<Model>(
        kit::model_config(
            "{hidden_size: 12, num_hidden_layers: 1, vocab_size: 257, max_position_embeddings: 6, position: "
            "learned, mixer: {type: attention, num_attention_heads: 3}}"),
        ModelOptions{});
    return loaded;
  }();
  EXPECT_EQ(inspect_model("a", learned, kText, 64).tokens.size(), 6u);
  EXPECT_THROW(inspect_model("a", learned, "", 64), Error);
}

TEST(InspectionPage, ShowsModelsSideBySideAndOnlyWhatWasChosen) {
  const Inspection inspection = inspection_of(
      {{"left", kMha}, {"right", "mixer: {type: attention, num_attention_heads: 3, heads: mhe_mul, output: none}"}});
  const std::string page = inspection_page(inspection, {.layers = {1}, .heads = {0, 2}});
  for (const char* text :
       {"left, layer 2, head 1", "right, layer 2, head 1", "left, layer 2, head 3", "Indicators over depth",
        "Head diversity", "Logits before the softmax", "mhe_mul, none output", "&lt;"})
    EXPECT_NE(page.find(text), std::string::npos) << text;
  for (const char* text : {"layer 1, head", "head 2", "<wbr>"}) EXPECT_EQ(page.find(text), std::string::npos) << text;
  EXPECT_EQ(page, inspection_page(inspection, {.layers = {1}, .heads = {0, 2}}));
  EXPECT_NE(inspection_page(inspection, {.means = true}).find("right, layer 3, mean of 3 heads"), std::string::npos);

  const Json json = inspection_json(inspection, {.layers = {1}, .heads = {0, 2}}, true);
  EXPECT_EQ(json["models"].size(), 2u);
  EXPECT_FALSE(json["models"][0]["layers"][0].contains("maps"));
  EXPECT_EQ(json["models"][0]["layers"][1]["maps"].size(), 2u);
  EXPECT_EQ(json["models"][0]["layers"][1]["maps"][1]["head"], 3);
  EXPECT_FALSE(inspection_json(inspection, {}, false)["models"][0]["layers"][1].contains("maps"));
}

// What training puts around a text stands around it here.
TEST(Inspection, FramesTheTextAsTrainingDoes) {
  const ModelView decoder = inspect_model("a", model_of(kMha), "ab", 64);
  EXPECT_EQ(decoder.tokens, (std::vector<std::string>{"<|endoftext|>", "a", "b"}));
  const ModelView cut = inspect_model("a", model_of(kMha), "abc", 2);
  EXPECT_EQ(cut.tokens, (std::vector<std::string>{"<|endoftext|>", "a"}));
  EXPECT_TRUE(cut.cut);
  const ModelView encoder =
      inspect_model("a", model_of(std::string(kMha) + ", architecture: encoder, head: tag, num_labels: 2"), "ab", 64);
  EXPECT_EQ(encoder.tokens, (std::vector<std::string>{"<|endoftext|>", "a", "b", "<|endoftext|>"}));
  EXPECT_EQ(encoder.layers[0].maps.weights.cols(), 4);
}

TEST(Inspection, ReadsTokensWithoutAVocabulary) {
  LoadedModel loaded;
  loaded.tokenizer = make_tokenizer({.type = "words"}, {});
  loaded.model = std::make_unique<Model>(
      kit::model_config(
          cat("{hidden_size: 12, num_hidden_layers: 1, vocab_size: 6, token_width: ", loaded.tokenizer->width(),
              ", max_position_embeddings: 40, architecture: encoder, head: tag, "
              "num_labels: 2, embedding: hash_proj, tie_word_embeddings: false, position: none, ffn: {type: relu, "
              "intermediate_size: "
              "16}, ",
              kMha, "}")),
      ModelOptions{.seed = 1});
  kit::randomise(loaded.model->parameters(), 1);
  const ModelView view = inspect_model("a", loaded, "Two words, here", 64);
  EXPECT_EQ(view.tokens, (std::vector<std::string>{"<s>", "two", "words", ",", "here", "</s>"}));
}

}  // namespace
}  // namespace lithe::analyze
