#include <gtest/gtest.h>

#include "lithe/ops/basic.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

constexpr int64_t kSkipLayers = 4;

Model layer_skip_model(const std::string& stack, int64_t layers = kSkipLayers, bool trainable = false) {
  Model model(kit::model_config(cat("{vocab_size: 19, hidden_size: 16, num_hidden_layers: ", layers,
                                    ", max_position_embeddings: 32, mixer: {type: attention, num_attention_heads: 2}, "
                                    "ffn: {type: swiglu, intermediate_size: 24}, stack: ",
                                    stack, "}")),
              ModelOptions{.dtype = DType::f64, .compute = DType::f64, .trainable = trainable});
  kit::randomise(model.parameters(), 6);
  return model;
}

const kit::Batch& layer_skip_batch() {
  static const kit::Batch made = kit::random_batch({6, 1, 9}, 19, 2);
  return made;
}

// oracle: cond.layer_skip
TEST(LayerSkip, NoneSkippedIsTheWholeModelAndAllSkippedTheEmbedding) {
  EXPECT_EQ(kit::bit_difference(kit::forward(layer_skip_model("layer_skip"), layer_skip_batch()).value(),
                                kit::forward(layer_skip_model("plain"), layer_skip_batch()).value()),
            "");
  const Model none = layer_skip_model("{type: layer_skip, layers: [1, 2, 3, 4]}");
  Model plain = layer_skip_model("plain");
  plain.skip({0, 1, 2, 3}, false);
  EXPECT_EQ(kit::bit_difference(kit::forward(none, layer_skip_batch()).value(),
                                kit::forward(plain, layer_skip_batch()).value()),
            "");
}

// oracle: cond.layer_skip
TEST(LayerSkip, AFixedListIsTheModelWithoutThoseLayers) {
  for (const auto& [stack, left] :
       {std::pair<std::string, std::vector<int64_t>>{"{type: layer_skip, layers: [2, 3]}", {0, 3}},
        {"{type: layer_skip, by: alternate}", {0, 2, 3}}}) {
    const Model skipping = layer_skip_model(stack);
    Model shorter = layer_skip_model("plain", int64_t(left.size()));
    for (Parameter& p : shorter.parameters().all()) {
      std::string from = p.name;
      if (from.starts_with("layers.")) from = cat("layers.", left[size_t(from[7] - '0')], from.substr(8));
      for (const Parameter& of : skipping.parameters().all())
        if (of.name == from) copy_into(p.master.value(), of.master.value());
    }
    EXPECT_EQ(kit::bit_difference(kit::forward(skipping, layer_skip_batch()).value(),
                                  kit::forward(shorter, layer_skip_batch()).value()),
              "")
        << stack;
  }
}

// A gate says row by row; decoding with states that skipped layers fill gives the whole forward.
// oracle: cond.layer_skip
TEST(LayerSkip, DecodingWithGatesIsTheWholeForward) {
  for (const char* stack :
       {"{type: layer_skip, by: gate}", "{type: layer_skip, by: position, least: 1, positions: 5}"}) {
    const Model model = layer_skip_model(stack);
    const Tensor whole = kit::forward(model, layer_skip_batch()).value();
    const Sequences& s = layer_skip_batch().sequences;
    EXPECT_NE(kit::bit_difference(whole, kit::forward(layer_skip_model("plain"), layer_skip_batch()).value()), "");
    for (int64_t b = 0; b < s.count(); ++b) {
      const auto state = model.make_state(1, 32);
      for (int64_t t = 0; t < s.length(b); ++t) {
        const int32_t id = layer_skip_batch().ids.data<int32_t>()[s.offset(b) + t];
        const Tensor row = kit::forward(model, tensor_of({1}, std::vector<int32_t>{id}),
                                        model.continue_sequences(*state, {1}), state.get())
                               .value();
        for (int64_t c = 0; c < 16; ++c)
          EXPECT_NEAR(value_at(row, c), value_at(whole, (s.offset(b) + t) * 16 + c), 1e-10) << stack << b << t;
      }
    }
  }
}

// oracle: cond.layer_skip
TEST(LayerSkip, GatesHaveTheParametersOfTheFormulaAndABudget) {
  Model model = layer_skip_model("{type: layer_skip, by: gate, budget: 0.5}", kSkipLayers, true);
  EXPECT_EQ(model.parameters().count(), layer_skip_model("plain").parameters().count() + kSkipLayers * (16 + 1));
  step_context() = {1, 1};
  {
    Tape tape;
    Pass pass;
    const Rows rows = model.run({layer_skip_batch().ids, layer_skip_batch().sequences}, pass);
    ASSERT_EQ(pass.losses().count("layer_budget"), 1u);
    LossSums sums;
    const Var loss = model.loss_of(rows, {}, {.labels = layer_skip_batch().labels, .sums = &sums});
    tape.backward(Model::with_losses(loss, pass));
  }
  step_context() = {};
  for (int64_t l = 0; l < kSkipLayers; ++l) {
    const Tensor grad = model.parameters().find(cat("stack.gates.", l, ".weight"))->master.grad();
    ASSERT_TRUE(grad.defined());
    double size = 0;
    for (int64_t i = 0; i < grad.numel(); ++i) size += std::abs(value_at(grad, i));
    EXPECT_GT(size, 0) << l;
  }
}

TEST(LayerSkip, RefusesLayersThatAreNotThere) {
  EXPECT_EQ(kit::coded_error_of([] { layer_skip_model("{type: layer_skip, layers: [5]}"); }),
            "2 layer_skip: there is no layer 5 among 4; name layers from 1 to 4");
  EXPECT_EQ(kit::coded_error_of([] { layer_skip_model("{type: layer_skip, by: gate, layers: [1]}"); }),
            "2 layer_skip: layers belong to by: list, and by is gate; leave one of them out");
}

}  // namespace
}  // namespace lithe
