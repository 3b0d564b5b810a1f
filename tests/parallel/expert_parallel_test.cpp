// Experts over ranks are those of one process.
#include "tests/parallel/divided_kit.h"

namespace lithe {
namespace {

std::string mixture(const std::string& more) {
  return "{vocab_size: 61, hidden_size: 16, num_hidden_layers: 2, max_position_embeddings: 32, mixer: {type: "
         "attention, num_attention_heads: 4}, ffn: {type: moe, num_experts: 4, moe_intermediate_size: 12" +
         more + "}}";
}

// oracle: hpc.parallel
TEST(ExpertParallel, ExpertsEqualOneProcess) {
  kit::expect_equal_courses(mixture(""), "{expert: 2}");
  kit::expect_equal_courses(mixture(", router_aux_loss_coef: 0.05, activation: swiglu, num_shared_experts: 1"),
                            "{expert: 4}");
  kit::expect_equal_courses(mixture(", num_experts_per_tok: 0"), "{expert: 2}");
}

TEST(ExpertParallel, GoesWithTensorAndData) {
  kit::expect_equal_courses(mixture(", router_aux_loss_coef: 0.05"), "{expert: 2, tensor: 2}");
  kit::expect_equal_courses(mixture(""), "{expert: 2}", "", 50, 1);
}

TEST(ExpertParallel, ARankHoldsItsExpertsAlone) {
  const Layout layout({.expert = 2}, 1);
  const Layout::Use use(&layout);
  Model model(kit::model_config(mixture("")), kit::kMeta);
  EXPECT_EQ(model.parameters().find("layers.0.ffn.experts.1.up.weight"), nullptr);
  EXPECT_NE(model.parameters().find("layers.0.ffn.experts.2.up.weight"), nullptr);
}

TEST(ExpertParallel, RefusesWhatItHasNoRuleFor) {
  const auto refuses = [](const std::string& model, int ranks, const char* why) {
    const Layout layout({.expert = ranks}, 0);
    const Layout::Use use(&layout);
    kit::expect_error([&] { const Model made(kit::model_config(model), kit::kMeta); }, why);
  };
  refuses(mixture(""), 3, "expert 3 does not divide the 4 experts of layer 1");
  refuses("{vocab_size: 61, hidden_size: 16, num_hidden_layers: 1, max_position_embeddings: 32}", 2,
          "no layer has one");
}

}  // namespace
}  // namespace lithe
