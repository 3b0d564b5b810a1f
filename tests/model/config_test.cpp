#include "lithe/model/config.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/model_kit.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

const std::string kBase =
    "vocab_size: 7, hidden_size: 8, max_position_embeddings: 5, mixer: {type: attention, num_attention_heads: 2}, ";

std::string refused_config(const std::string& rest) {
  try {
    const Model model(read_model_config(parse_yaml("{" + kBase + rest + "}", "recipe.yaml")), {.device = Device::meta});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage) << error.what();
    return error.what();
  }
  return "accepted";
}

TEST(ModelConfig, HybridsNameOneMixerALayer) {
  const std::string mixers =
      "mixers: {wide: {type: attention, num_attention_heads: 2}, narrow: {type: attention, num_attention_heads: 4, "
      "heads: mqa}}";
  const ModelConfig config =
      kit::model_config("{" + kBase + "num_hidden_layers: 3, " + mixers + ", layer_types: [wide, narrow, wide]}");
  EXPECT_EQ(config.layer(0).mixer()->options.find("num_attention_heads")->text(), "2");
  EXPECT_EQ(config.layer(1).mixer()->options.find("num_attention_heads")->text(), "4");
  EXPECT_EQ(config.layer(1).mixer()->options.find("heads")->find("type")->text(), "mqa");
  Model model(config, {});
  EXPECT_EQ(cat(model.parameters().find("layers.0.mixer.heads.k.weight")->master.shape()), "[8,8]");
  EXPECT_EQ(cat(model.parameters().find("layers.1.mixer.heads.k.weight")->master.shape()), "[8,2]");
  // 2 layers of 2 x 8 columns, one of 2 x 2, in f32.
  EXPECT_EQ(model.state_bytes({10}), 10 * 4 * (2 * 16 + 4));
}

TEST(ModelConfig, HybridsThatDoNotFitAreRefused) {
  const std::string mixers = "mixers: {wide: attention, narrow: {type: attention, heads: mqa}}, ";
  EXPECT_EQ(refused_config("num_hidden_layers: 3, " + mixers + "layer_types: [wide, narrow]"),
            "model: layer_types has 2 names, num_hidden_layers is 3; give one name a layer");
  EXPECT_EQ(refused_config("num_hidden_layers: 2, " + mixers + "layer_types: [wide, narow]"),
            "recipe: layer_types names 'narow', which model.layers does not define; did you mean 'narrow'?");
  EXPECT_EQ(refused_config("num_hidden_layers: 2, " + mixers + "layer_types: [wide, wide]"),
            "model: mixers defines 'narrow', which layer_types does not use; remove it, name it there, or give "
            "layer_pattern");
  EXPECT_EQ(refused_config("num_hidden_layers: 2, " + mixers),
            "model: mixers defines 'wide', which layer_types does not use; remove it, name it there, or give "
            "layer_pattern");
  EXPECT_EQ(refused_config("num_hidden_layers: 2, layer_pattern: hybrid"),
            "recipe: layer_pattern hybrid names 'replaced', which model.layers does not define; define it like "
            "model.layers: {replaced: {mixer: {type: attention}}}");
  EXPECT_EQ(
      refused_config("num_hidden_layers: 2, mixers: {standard: attention, replaced: attention, third: attention}, "
                     "layer_pattern: hybrid"),
      "model: mixers defines 'third', which layer_pattern hybrid does not use; it reads standard and replaced: "
      "remove the others");
  const std::string wrong =
      refused_config("num_hidden_layers: 1, mixers: {a: {type: attention, heads: mxa}}, layer_types: [a]");
  EXPECT_NE(wrong.find("slot heads has no part 'mxa'"), std::string::npos) << wrong;
  EXPECT_NE(wrong.find("recipe.yaml:1:"), std::string::npos) << wrong;
}

TEST(ModelConfig, ImpossibleSizesAreRefused) {
  const auto why = [](const std::string& yaml) -> std::string {
    try {
      const Model model(read_model_config(parse_yaml(yaml, "recipe.yaml")), {.device = Device::meta});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage) << error.what();
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(why("{max_position_embeddings: 4}"), "model: vocab_size must be at least 1, got 0");
  EXPECT_EQ(why("{vocab_size: 4}"), "model: max_position_embeddings must be at least 1, got 0");
  EXPECT_EQ(why("{hidden_size: 0}"),
            "recipe: recipe.yaml:1:15: 'model.hidden_size' must be between 1 and 1048576, got 0");
  EXPECT_EQ(why("{num_hidden_layers: -1}"),
            "recipe: recipe.yaml:1:21: 'model.num_hidden_layers' must be between 0 and 10000, got -1");
  EXPECT_EQ(why("{hidden_dropout: 1}"),
            "recipe: recipe.yaml:1:18: 'model.hidden_dropout' must be between 0 and 0.99, got 1");
  EXPECT_EQ(why("{architecture: decodr}"),
            "recipe: recipe.yaml:1:16: 'model.architecture' must be one of decoder, encoder, encoder_decoder, got "
            "'decodr'; did you "
            "mean 'decoder'?");
  EXPECT_EQ(why("{hiden_size: 4}"),
            "recipe: recipe.yaml:1:14: unknown key 'hiden_size' in section 'model'; did you mean 'hidden_size'?");
  EXPECT_EQ(why("{vocab_size: 5, max_position_embeddings: 4, hidden_size: 15, mixer: {type: attention, "
                "num_attention_heads: 4}}"),
            "attention: hidden_size 15 must be a multiple of num_attention_heads 4, or give head_dim");
}

TEST(ModelConfig, FilesKeepEverything) {
  const kit::Scratch scratch;
  const Path file = scratch.path() / "config.json";
  const ModelConfig config = kit::model_config(
      "{" + kBase +
      "num_hidden_layers: 2, mixers: {a: {type: attention, num_attention_heads: 2}, b: {type: attention, "
      "num_attention_heads: 4, heads: {type: gqa, num_key_value_heads: 2}}}, layer_types: [b, a], norm: {type: layer, "
      "eps_mode: variance, eps: 1.0e-6}, residual: post, position: {type: rotary, base: 500000}, hidden_dropout: "
      "0.125, init: {type: xavier_uniform, depth: power, depth_b: -0.25}, tie_word_embeddings: false}");
  save_config(config, file);
  const ModelConfig back = load_config(file);
  const auto text = [](ModelConfig c) { return to_yaml(write_fields([&](Fields& f) { c.fields(f); })); };
  EXPECT_EQ(text(back), text(config));
  EXPECT_EQ(back.init.depth_b, -0.25);
  EXPECT_EQ(std::stod(back.position.options.find("base")->text()), 500000);
  EXPECT_EQ(Model(back, {.device = Device::meta}).parameters().count(),
            Model(config, {.device = Device::meta}).parameters().count());
  for (const char* wrong : {"{}", "{\"model_type\": \"gpt2\"}", "[]", "not json",
                            "{\"model_type\": \"lithe\", \"hidden_sise\": 3}", "{\"model_type\": \"lithe\"}"}) {
    write_file(file, wrong);
    EXPECT_THROW(load_config(file), Error) << wrong;
  }
}

}  // namespace
}  // namespace lithe
