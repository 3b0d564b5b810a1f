// Heads and hidden units over ranks are those of one process.
#include "tests/parallel/divided_kit.h"
#include "tests/support/errors.h"

namespace lithe {
namespace {

std::string small(const std::string& mixer, const std::string& ffn, const std::string& more = "") {
  return "{vocab_size: 61, hidden_size: 16, num_hidden_layers: 2, max_position_embeddings: 32, mixer: {type: "
         "attention, num_attention_heads: 4" +
         mixer + "}, ffn: {" + ffn + "}" + more + "}";
}

// oracle: hpc.parallel
TEST(TensorParallel, HeadsAndHiddenUnitsEqualOneProcess) {
  kit::expect_equal_courses(
      small(", heads: mha, attention_bias: true, output_bias: true", "type: gelu, intermediate_size: 24"),
      "{tensor: 2}");
  kit::expect_equal_courses(
      small(", heads: {type: gqa, num_key_value_heads: 2}", "type: swiglu, intermediate_size: 24"), "{tensor: 2}");
  kit::expect_equal_courses(small(", heads: mqa", "type: relu"), "{tensor: 4}");
  kit::expect_equal_courses(small(", heads: {type: mha, qk_norm: head}", "type: geglu, intermediate_size: 24",
                                  ", position: learned, norm: rms"),
                            "{tensor: 4}");
  kit::expect_equal_courses(small(", heads: {type: gqa, num_key_value_heads: 1}", "type: silu"), "{tensor: 2}",
                            "gradient_checkpointing: true");
}

TEST(TensorParallel, HeadsOfOneSeedEqualOneProcess) {
  kit::expect_equal_courses(small(", heads: mhe_mul", "type: gelu"), "{tensor: 2}");
  kit::expect_equal_courses(small(", heads: mhe_add", "type: gelu", ", position: sinusoidal"), "{tensor: 2}");
}

TEST(TensorParallel, WorksInBf16) {
  kit::expect_equal_courses(small("", "type: swiglu, intermediate_size: 24"), "{tensor: 2}", "precision: bf16", 10, 2,
                            3e-2);
}

TEST(TensorParallel, AShareHasItsPartOfTheMemoryAndOfTheWeights) {
  const ModelConfig config = kit::model_config(small("", "type: gelu, intermediate_size: 24"));
  const Layout layout({.tensor = 2}, 1);
  const Layout::Use use(&layout);
  const Model model(config, kit::kMeta);
  int64_t cut = 0;
  for (const Parameter& p : model.parameters().all()) {
    const Shape whole = model.division()->whole_shape(p);
    if (whole == p.master.shape()) continue;
    EXPECT_EQ(whole.numel(), 2 * p.master.shape().numel()) << p.name;
    ++cut;
  }
  EXPECT_EQ(cut, 2 * (4 + 3));  // q, k, v, output; up, its bias, down
}

TEST(TensorParallel, RefusesWhatItHasNoRuleFor) {
  const auto refuses = [](const std::string& model, int ranks, const char* why) {
    const Layout layout({.tensor = ranks}, 0);
    const Layout::Use use(&layout);
    kit::expect_error([&] { const Model made(kit::model_config(model), kit::kMeta); }, why);
  };
  refuses(small("", "type: gelu"), 3, "tensor 3 does not divide the 4 heads of layers.0.mixer");
  refuses(small("", "type: gelu, intermediate_size: 25"), 2, "does not divide the 25 hidden units");
  refuses(small(", heads: sha", "type: gelu"), 2, "mha, gqa, mqa, mhe_add, mhe_mul");
  refuses(small(", output: hadamard", "type: gelu"), 2, "output");
  refuses(small("", "type: gelu", ", position: alibi"), 2, "change logits");
  refuses(small(", attention_dropout: 0.1", "type: gelu"), 2, "attention_dropout");
  refuses(small("", "type: moe"), 2, "is moe");
  refuses("{vocab_size: 61, hidden_size: 16, num_hidden_layers: 1, max_position_embeddings: 32, mixer: gru}", 2,
          "is gru");
}

// What reads the heads of a layer would find those of one rank.
TEST(TensorParallel, RefusesReadersOfDividedHeads) {
  kit::expect_error(
      [] {
        const Layout layout({.tensor = 2}, 0);
        const Layout::Use use(&layout);
        const Model model(
            kit::model_config("{architecture: encoder, head: {type: classify}, num_labels: 2, vocab_size: 61, "
                              "hidden_size: 16, num_hidden_layers: 2, max_position_embeddings: 32, mixer: {type: "
                              "attention, num_attention_heads: 4}, layers: {whole: {}, fewer: {compressor: {type: "
                              "token_prune}}}, layer_types: [whole, fewer]}"),
            kit::kMeta);
        const NoGrad no_grad;
        Pass pass;
        model.run(kit::clm_batches(1, 1, 61, Device::meta)[0].input, pass);
      },
      "something reads the received attention of layer 1, which no rank has whole");
}

TEST(Pipeline, RefusesAuxiliaryObjectives) {
  kit::expect_error(
      [] {
        TrainConfig train;
        read_fields(parse_yaml("{max_steps: 1, auxiliary_objectives: {low: {type: layer_prediction, layer: 1}}, "
                               "parallel: {pipeline: 2}}",
                               "test"),
                    "train", [&](Fields& f) { train.fields(f); });
        const Layout layout(train.parallel, 0);
        const Layout::Use use(&layout);
        const Model model(
            kit::model_config(
                "{vocab_size: 61, hidden_size: 16, num_hidden_layers: 2, max_position_embeddings: 32, mixer: {type: "
                "attention, num_attention_heads: 4}}"),
            kit::kMeta);
        const TrainedObjective objective(train, model);
      },
      "auxiliary objective low looks at all tokens and layers");
}

}  // namespace
}  // namespace lithe
