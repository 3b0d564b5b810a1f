// Stages of layers over ranks are the layers of one process.
#include "tests/parallel/divided_kit.h"

namespace lithe {
namespace {

std::string layers(const std::string& more, const std::string& ffn = "type: relu, intermediate_size: 24") {
  return "{vocab_size: 61, hidden_size: 16, num_hidden_layers: 5, max_position_embeddings: 32, mixer: {type: "
         "attention, num_attention_heads: 4}, ffn: {" +
         ffn + "}" + more + "}";
}

// oracle: hpc.parallel
TEST(Pipeline, StagesEqualOneProcess) {
  kit::expect_equal_courses(layers(""), "{pipeline: 2}", "", 50, 4);
  kit::expect_equal_courses(layers(", tie_word_embeddings: false, position: learned, embedding_norm: true"),
                            "{pipeline: 3}", "", 50, 3);
  kit::expect_equal_courses(layers(", hidden_dropout: 0.1"), "{pipeline: 5}", "gradient_checkpointing: true", 50, 4);
}

TEST(Pipeline, GoesWithTensorAndLossesOfLayers) {
  kit::expect_equal_courses(layers(", norm: rms, residual: post"), "{pipeline: 2, tensor: 2}", "", 50, 3);
  kit::expect_equal_courses(
      layers("", "type: moe, num_experts: 2, moe_intermediate_size: 8, router_aux_loss_coef: 0.05"),
      "{pipeline: 2, expert: 2}", "", 50, 3);
}

TEST(Pipeline, AStageHoldsItsLayersAlone) {
  const ModelConfig config = kit::model_config(layers(""));
  const auto names = [&](int stage) {
    const Layout layout({.pipeline = 3}, stage);
    const Layout::Use use(&layout);
    const Model model(config, kit::kMeta);
    std::set<std::string> out;
    for (const Parameter& p : model.parameters().all()) out.insert(p.name.substr(0, p.name.find('.', 8)));
    return out;
  };
  EXPECT_EQ(names(0), (std::set<std::string>{"embedding", "layers.0"}));
  EXPECT_EQ(names(1), (std::set<std::string>{"layers.1", "layers.2"}));
  EXPECT_TRUE(names(2).count("layers.4"));
  EXPECT_FALSE(names(2).count("layers.2"));
}

TEST(Pipeline, RefusesWhatItHasNoRuleFor) {
  const auto refuses = [](const std::string& model, int ranks, const char* why) {
    const Layout layout({.pipeline = ranks}, 0);
    const Layout::Use use(&layout);
    kit::expect_error([&] { const Model made(kit::model_config(model), kit::kMeta); }, why);
  };
  refuses(layers(""), 6, "pipeline 6 has more stages than the 5 layers");
  refuses(layers(", stack: reversible"), 2, "is for stack plain");
  refuses(layers(", share: {layers: all}"), 2, "model.share is all");
  refuses(layers(", architecture: encoder_decoder"), 2, "one stack that reads text");
}

}  // namespace
}  // namespace lithe
