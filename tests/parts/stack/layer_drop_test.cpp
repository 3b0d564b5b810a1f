#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

ModelConfig layer_drop_config(const std::string& stack, const std::string& more = "") {
  return kit::model_config(
      cat("{hidden_size: 8, num_hidden_layers: 3, vocab_size: 11, max_position_embeddings: 9, mixer: {type: attention, "
          "num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 6}, stack: ",
          stack, "}"),
      more);
}

std::unique_ptr<Model> layer_drop_model(const std::string& stack, const std::string& more = "") {
  auto model = std::make_unique<Model>(layer_drop_config(stack, more), kit::kTrainable);
  kit::randomise(model->parameters(), 3);
  return model;
}

// oracle: reg.layer_drop
TEST(LayerDrop, KeepingAllIsThePlainStackAndKeepingNothingTheIdentity) {
  const kit::Batch batch = kit::random_batch({5, 3}, 11, 4);
  const auto plain = layer_drop_model("plain"), all = layer_drop_model("{type: layer_drop, keep: 1}"),
             none = layer_drop_model("{type: layer_drop, keep: 0}");
  EXPECT_EQ(kit::bit_difference(kit::forward(*all, batch).value(), kit::forward(*plain, batch).value()), "");
  Model empty(layer_drop_config("plain", "num_hidden_layers: 0"), kit::kTrainable);
  kit::copy_values(none->parameters(), empty.parameters());
  EXPECT_EQ(kit::bit_difference(kit::forward(*none, batch).value(), kit::forward(empty, batch).value()), "");
  const Tape tape;
  EXPECT_EQ(kit::bit_difference(kit::forward(*all, batch).value(), kit::forward(*plain, batch).value()), "");
  EXPECT_EQ(kit::bit_difference(kit::forward(*none, batch).value(), kit::forward(empty, batch).value()), "");
}

// What is drawn is a function of the step: in expectation a sub-layer counts rho times, as it does after training.
// oracle: reg.layer_drop
TEST(LayerDrop, TheMeanOverStepsIsTheResultAfterTraining) {
  const auto model = layer_drop_model("{type: layer_drop, keep: 0.7}", "num_hidden_layers: 1, mixer: mlp");
  for (Parameter& p : model->parameters().all())  // one sub-layer: the other adds nothing
    if (p.name == "layers.0.ffn.down.weight" || p.name == "layers.0.ffn.down.bias")
      for (int64_t i = 0; i < p.master.value().numel(); ++i) set_value(p.master.value(), i, 0);
  const kit::Batch batch = kit::random_batch({1}, 11, 4);
  // Before the final norm rows are linear in what the sub-layer adds.
  const auto tapped = [&] {
    Pass pass;
    pass.want({Tap::Kind::rows, 0});
    model->run({batch.ids, batch.sequences}, pass);
    return pass.get({Tap::Kind::rows, 0}).value();
  };
  const Tensor after = tapped();
  const int64_t steps = 20000;
  std::vector<double> sum(8, 0);
  int64_t kept = 0;
  Tensor first;
  for (int64_t step = 0; step < steps; ++step) {
    step_context() = {.seed = 9, .step = uint64_t(step)};
    const Tape tape;
    const Tensor rows = tapped();
    for (size_t c = 0; c < 8; ++c) sum[c] += value_at(rows, int64_t(c)) / double(steps);
    if (!first.defined()) first = rows;
    kept += kit::largest_difference(rows, first) == 0;
  }
  const double share = double(std::max(kept, steps - kept)) / double(steps);
  EXPECT_NEAR(share, 0.7, 0.01);  // three standard deviations: sqrt(0.21 / 20000)
  for (size_t c = 0; c < 8; ++c) EXPECT_NEAR(sum[c], value_at(after, int64_t(c)), 0.05);
}

// oracle: reg.layer_drop
TEST(LayerDrop, WhatIsLeftOutHasNoGradient) {
  const auto model = layer_drop_model("{type: layer_drop, keep: 0.5, schedule: linear}");
  const kit::Batch batch = kit::random_batch({5}, 11, 4);
  int64_t without = 0, with = 0;
  for (uint64_t step = 0; step < 12; ++step) {
    step_context() = {.seed = 1, .step = step};
    for (Parameter& p : model->parameters().all())
      if (p.master.ref()) p.master.ref()->grad = Tensor();
    Tape tape;
    const Var rows = kit::forward(*model, batch.ids, batch.sequences);
    tape.backward(rows, kit::normal(rows.shape(), DType::f64, 7));
    for (const Parameter& p : model->parameters().all())
      if (p.name.ends_with("ffn.down.weight")) (p.master.grad().defined() ? with : without) += 1;
  }
  EXPECT_GT(without, 0);
  EXPECT_GT(with, without);  // the mean of 5/6, 4/6 and 3/6 is 2/3
}

// oracle: reg.layer_drop
TEST(LayerDrop, RecomputingDrawsTheSame) {
  const kit::Batch batch = kit::random_batch({5, 2}, 11, 4);
  std::vector<Tensor> gradients;
  for (const bool recompute : {false, true}) {
    const auto model = layer_drop_model("{type: layer_drop, keep: 0.5}");
    model->set_recompute(recompute);
    step_context() = {.seed = 1, .step = 3};
    Tape tape;
    const Var rows = kit::forward(*model, batch.ids, batch.sequences);
    tape.backward(rows, kit::normal(rows.shape(), DType::f64, 7));
    gradients.push_back(model->parameters().find("embedding.weight")->master.grad());
  }
  EXPECT_EQ(kit::bit_difference(gradients[0], gradients[1]), "");
}

// oracle: reg.layer_drop
TEST(LayerDrop, InvertedDividesWhileTraining) {
  const kit::Batch batch = kit::random_batch({4}, 11, 4);
  EXPECT_EQ(kit::bit_difference(
                kit::forward(*layer_drop_model("{type: layer_drop, keep: 0.6, inverted: true}"), batch).value(),
                kit::forward(*layer_drop_model("plain"), batch).value()),
            "");
  EXPECT_EQ(kit::coded_error_of([] { layer_drop_model("{type: layer_drop, keep: 0, inverted: true}"); }),
            "2 layer_drop: inverted divides by keep, which is 0; give a keep above 0");
}

}  // namespace
}  // namespace lithe
