#include "tests/parts/objective_kit.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

const std::string kModel =
    "{vocab_size: 11, hidden_size: 6, num_hidden_layers: 3, max_position_embeddings: 16, num_labels: 3, position: "
    "sinusoidal, mixer: {type: "
    "attention, num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 7}}";

struct Trained {
  explicit Trained(const std::string& options, const std::string& more = "")
      : model(kit::model_config(kModel, more), kit::kTrainable) {
    own.context().trainable = true;
    objective = own.make<Objective>("layer_prediction", {.model = &model}, options, "objective.low");
    kit::randomise(model.parameters(), 3);
    kit::randomise(own.parameters(), 5);
  }
  // 1 / 8 of the sum over the labels, weighted.
  Var loss(const kit::Batch& batch, LossSums* sums = nullptr, const std::vector<int64_t>& predicted = {}) const {
    Pass pass;
    objective->want(model, pass);
    const ModelInput input{batch.ids, batch.sequences};
    const Rows rows = model.run(input, pass);
    return objective->loss({model, rows, pass, input},
                           {.labels = kit::labels_for(model, batch), .predicted = predicted},
                           {.scale = 1.0 / 8, .sums = sums});
  }
  Model model;
  kit::Bench own;
  std::unique_ptr<Objective> objective;
};

const kit::Batch& two() {
  static const kit::Batch batch = kit::random_batch({5, 3}, 11, 4);
  return batch;
}

// Its own norm and map, over the rows that leave the layer.
TEST(LayerPrediction, ItsLossIsTheCrossEntropyOfItsOwnMap) {
  Trained trained("{layer: 2, weight: 0.25}");
  LossSums sums;
  const double loss = value_at(trained.loss(two(), &sums).value(), 0);

  Pass pass;
  pass.want({Tap::Kind::rows, 1});
  trained.model.run({two().ids, two().sequences}, pass);
  const Tensor rows = pass.get({Tap::Kind::rows, 1}).value();
  auto& own = trained.own.parameters();
  const auto value = [&](const char* name, int64_t i) { return value_at(own.find(name)->master.value(), i); };
  double nll = 0;
  for (int64_t n = 0; n < 8; ++n) {
    const auto label = value_at(two().labels, n);
    if (label < 0) continue;
    double squares = 0;
    for (int64_t c = 0; c < 6; ++c) squares += value_at(rows, n * 6 + c) * value_at(rows, n * 6 + c) / 6;
    double total = 0, of_label = 0;
    for (int64_t v = 0; v < 11; ++v) {
      double z = value("objective.low.map.bias", v);
      for (int64_t c = 0; c < 6; ++c)
        z += value_at(rows, n * 6 + c) / std::sqrt(squares + 1e-5) * value("objective.low.norm.weight", c) *
             value("objective.low.map.weight", c * 11 + v);
      total += std::exp(z);
      if (v == int64_t(label)) of_label = z;
    }
    nll += std::log(total) - of_label;
  }
  EXPECT_EQ(own.count(), 6 + 6 * 11 + 11);
  EXPECT_NEAR(sums.loss, nll, 1e-9);
  EXPECT_NEAR(loss, 0.25 * nll / 8, 1e-9);
}

TEST(LayerPrediction, GradientsReachItsParametersAndTheLayersBelow) {
  Trained trained("{layer: 1, weight: 2}");
  const auto f = [&](const std::vector<Var>&) { return std::vector{trained.loss(two())}; };
  std::string where;
  EXPECT_LT(kit::gradient_error(trained.own.parameters(), f, {}, &where), 1e-6) << where;
  EXPECT_LT(kit::gradient_error(trained.model.parameters(), f, {}, &where), 1e-6) << where;
}

TEST(LayerPrediction, AProbeLeavesTheModelAlone) {
  Trained probe("{layer: 1, detach: true}");
  Tape tape;
  tape.backward(probe.loss(two()));
  for (const Parameter& p : probe.model.parameters().all()) EXPECT_FALSE(p.master.grad().defined()) << p.name;
  for (const Parameter& p : probe.own.parameters().all()) EXPECT_TRUE(p.master.grad().defined()) << p.name;
}

TEST(LayerPrediction, PredictsTheRowsThatTheObjectiveBesideItPredicts) {
  const Trained trained("{layer: 1}");
  LossSums all, some;
  trained.loss(two(), &all);
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < 8; ++row) rows.push_back(row);
  trained.loss(two(), &some, rows);
  EXPECT_EQ(some.labels, all.labels);
  EXPECT_EQ(some.loss, all.loss);
}

TEST(LayerPrediction, PredictsForSequencesWhereTheHeadDoes) {
  Trained trained("{layer: 2}", "architecture: encoder, head: classify, tie_word_embeddings: false");
  LossSums sums;
  trained.loss(two(), &sums);
  EXPECT_EQ(trained.own.parameters().count(), 6 + 6 * 3 + 3);
  EXPECT_EQ(sums.labels, 2);
  EXPECT_GT(sums.loss, 0);
}

TEST(LayerPrediction, RefusesWhatCannotBe) {
  const auto refused = [](const std::string& yaml, const std::string& more = "") {
    return kit::coded_error_of([&] { Trained(yaml, more).loss(two()); });
  };
  EXPECT_EQ(refused("{layer: 1}", "stack: reversible"),
            "2 objective: reads the rows of layer 1, and that layer gives none: 3 layers, stack reversible; name a "
            "layer that has them and runs, or choose another objective");
  EXPECT_EQ(refused("{layer: 1}", "head: span, architecture: encoder").substr(0, 60),
            "2 layer_prediction: predicts one of several classes for each");
  EXPECT_NE(refused("{layr: 1}").find("did you mean 'layer'?"), std::string::npos);
  ModelConfig model = kit::model_config(kModel);
  const auto tokenizer = kit::pieces();
  EXPECT_EQ(kit::coded_error_of([&] {
              kit::objective("{type: layer_prediction, layer: 3}")->prepare({.tokenizer = *tokenizer}, model);
            }).substr(0, 59),
            "2 layer_prediction: layer 3 of 3 is not below the last, who");
}

}  // namespace
}  // namespace lithe
