#include <gtest/gtest.h>

#include "lithe/model/exits.h"
#include "lithe/ops/basic.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

constexpr int64_t kExitLayers = 5;

ModelConfig config_of(const std::string& stack, const std::string& more = "") {
  return kit::model_config(
      cat("{vocab_size: 23, hidden_size: 16, num_hidden_layers: ", kExitLayers,
          ", max_position_embeddings: 32, num_labels: 3, mixer: {type: attention, ",
          "num_attention_heads: 2}, ffn: {type: swiglu, intermediate_size: 24}, stack: ", stack, "}"),
      more);
}

struct Fixed {
  explicit Fixed(const std::string& stack = "early_exit", const std::string& more = "", uint64_t seed = 3)
      : model(config_of(stack, more), ModelOptions{.dtype = DType::f64, .compute = DType::f64, .seed = seed}) {
    kit::randomise(model.parameters(), seed);
  }
  // Logits of all rows, and how many layers each ran.
  struct Out {
    Tensor logits;
    double mean = 0;
    std::vector<int64_t> layers;
  };
  Out run(const std::string& rule, const kit::Batch& batch) const {
    std::optional<ExitRun> exits = exit_run_of(model, rule);
    Pass pass;
    pass.set_exits(exits ? &*exits : nullptr);
    const Rows rows = model.run({batch.ids, batch.sequences}, pass);
    Out out{.logits = model.logits(rows, {}).value(),
            .mean = exits ? exits->mean_layers() : double(kExitLayers),
            .layers = {}};
    for (int64_t r = 0; exits && r < batch.sequences.rows(); ++r) {
      const int32_t e = exits->exit_of_row[size_t(r)];
      out.layers.push_back(e < 0 ? kExitLayers : model.exits()[size_t(e)].layer + 1);
    }
    return out;
  }
  // The same token by token with states.
  Out decode(const std::string& rule, const kit::Batch& batch) const {
    std::optional<ExitRun> exits = exit_run_of(model, rule);
    const Sequences& s = batch.sequences;
    const auto state = model.make_state(s.count(), 32);
    Out out{.logits = empty({s.rows(), 23}, DType::f64), .layers = std::vector<int64_t>(size_t(s.rows()), kExitLayers)};
    for (int64_t t = 0;; ++t) {
      std::vector<int64_t> counts, rows, wanted;
      std::vector<int32_t> ids;
      for (int64_t b = 0; b < s.count(); ++b) {
        counts.push_back(t < s.length(b));
        if (!counts.back()) continue;
        rows.push_back(s.offset(b) + t);
        ids.push_back(batch.ids.data<int32_t>()[rows.back()]);
        wanted.push_back(int64_t(wanted.size()));
      }
      if (ids.empty()) break;
      Pass pass;
      pass.set_exits(exits ? &*exits : nullptr);
      const Rows made = model.run({tensor_of({int64_t(ids.size())}, ids), model.continue_sequences(*state, counts)},
                                  pass, state.get());
      const Tensor logits = model.logits(made, wanted).value();
      for (size_t i = 0; i < rows.size(); ++i) {
        for (int64_t c = 0; c < 23; ++c) set_value(out.logits, rows[i] * 23 + c, value_at(logits, int64_t(i) * 23 + c));
        const int32_t e = exits ? exits->exit_of_row[i] : -1;
        if (e >= 0) out.layers[size_t(rows[i])] = model.exits()[size_t(e)].layer + 1;
      }
    }
    return out;
  }
  Model model;
};

double furthest(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  double worst = 0;
  for (int64_t i = 0; i < a.numel(); ++i) worst = std::max(worst, std::abs(value_at(a, i) - value_at(b, i)));
  return worst;
}

const kit::Batch& three() {
  static const kit::Batch batch = kit::random_batch({7, 1, 4}, 23, 5);
  return batch;
}

// oracle: exit.classifier
TEST(EarlyExit, AThresholdThatNothingMeetsIsTheWholeModel) {
  const Fixed m;
  const auto whole = m.run("", three());
  for (const char* rule : {"entropy:0", "maxprob:1.5", "similarity:1.5", "patience:9", "divergence:-1"}) {
    const auto got = m.run(rule, three());
    EXPECT_EQ(kit::bit_difference(got.logits, whole.logits), "") << rule;
    EXPECT_EQ(got.mean, double(kExitLayers)) << rule;
  }
}

// The first l layers with the head, and keys of the upper layers are of what left.
// oracle: exit.classifier
TEST(EarlyExit, AForcedExitIsTheShorterModel) {
  for (const char* stack : {"early_exit", "{type: early_exit, share_heads: false}"}) {
    const Fixed m(stack);
    for (int64_t l = 1; l < kExitLayers; ++l) {
      Model shorter(kit::model_config(cat("{vocab_size: 23, hidden_size: 16, num_hidden_layers: ", l,
                                          ", max_position_embeddings: 32, mixer: {type: attention, "
                                          "num_attention_heads: 2}, ffn: {type: swiglu, intermediate_size: 24}, "
                                          "tie_word_embeddings: ",
                                          std::string(stack) == "early_exit" ? "true}" : "false}")),
                    ModelOptions{.dtype = DType::f64, .compute = DType::f64});
      for (Parameter& p : shorter.parameters().all()) {
        const std::string from = p.name == "head.weight" ? cat("head.exits.", l, ".weight") : p.name;
        const Parameter* of = const_cast<Parameters&>(m.model.parameters()).find(from);
        ASSERT_TRUE(of) << from;
        copy_into(p.master.value(), of->master.value());
      }
      const Tensor want = kit::logits(shorter, three().ids, three().sequences).value();
      const auto got = m.run(cat("layer:", l), three());
      EXPECT_LT(furthest(got.logits, want), 1e-12) << stack << " " << l;
      EXPECT_EQ(got.mean, double(l));
    }
  }
}

// oracle: exit.classifier
TEST(EarlyExit, DecodingIsTheWholeForwardForEveryRule) {
  for (const char* stack : {"early_exit", "{type: early_exit, layers: [2, 4], share_heads: false}"}) {
    const Fixed m(stack);
    for (const char* rule :
         {"layer:2", "entropy:2.2", "maxprob:0.3", "margin:0.2", "similarity:0.8", "divergence:0.1", "patience:1"}) {
      const auto whole = m.run(rule, three()), steps = m.decode(rule, three());
      EXPECT_EQ(steps.layers, whole.layers) << stack << " " << rule;
      EXPECT_LT(furthest(steps.logits, whole.logits), 1e-10) << stack << " " << rule;
    }
  }
}

TEST(EarlyExit, RulesLeaveAtSeveralDepths) {
  const Fixed m;
  const auto got = m.run("entropy:2.2", three());
  EXPECT_GT(got.mean, 1);
  EXPECT_LT(got.mean, double(kExitLayers));
  double sum = 0;
  for (int64_t l : got.layers) sum += double(l);
  EXPECT_NEAR(got.mean, sum / double(got.layers.size()), 1e-12);  // the counter
}

// oracle: exit.entropy
// oracle: exit.similarity
TEST(EarlyExit, LooserRulesLeaveNoLater) {
  const Fixed m;
  for (const auto& [criterion, thresholds] :
       {std::pair<std::string, std::vector<double>>{"entropy", {0.5, 1.5, 2, 2.5, 9}},
        {"similarity", {1.1, 0.95, 0.9, 0.7, 0}},
        {"maxprob", {1.1, 0.6, 0.3, 0.1, 0}}}) {
    std::vector<int64_t> before(12, kExitLayers);
    for (double t : thresholds) {
      const auto got = m.run(cat(criterion, ":", t), three());
      for (size_t r = 0; r < before.size(); ++r) EXPECT_LE(got.layers[r], before[r]) << criterion << " " << t;
      before = got.layers;
    }
    EXPECT_EQ(before, std::vector<int64_t>(12, criterion == "similarity" ? 2 : 1)) << criterion;
  }
}

// oracle: exit.classifier
TEST(EarlyExit, ASentenceHasOneDepth) {
  for (const char* head : {"classify", "tag"}) {
    const Fixed m("early_exit", cat("architecture: encoder, head: ", head, ", tie_word_embeddings: false"));
    const auto got = m.run("patience:1", three());
    EXPECT_GT(got.mean, 1) << head;
    EXPECT_LT(got.mean, double(kExitLayers)) << head;
    const Sequences& s = three().sequences;
    for (int64_t b = 0; b < s.count(); ++b) {
      for (int64_t r = s.offset(b); r < s.offset(b + 1); ++r)
        EXPECT_EQ(got.layers[size_t(r)], got.layers[size_t(s.offset(b))]) << head;
      const auto alone = m.run("patience:1", kit::alone(three(), b));
      EXPECT_EQ(alone.layers[0], got.layers[size_t(s.offset(b))]) << head;
    }
  }
}

// oracle: exit.classifier
TEST(EarlyExit, HeadsCostWhatTheFormulaSays) {
  const auto count = [](const std::string& stack) {
    return Model(config_of(stack), ModelOptions{.device = Device::meta}).parameters().count();
  };
  const int64_t plain = count("plain");
  EXPECT_EQ(count("early_exit"), plain);
  EXPECT_EQ(count("{type: early_exit, share_heads: false}"), plain + (kExitLayers - 1) * 16 * 23);
  EXPECT_EQ(count("{type: early_exit, layers: [2], share_heads: false}"), plain + 16 * 23);
  EXPECT_EQ(count("{type: early_exit, depth_predictor: true}"), plain + 16 * kExitLayers + kExitLayers);
}

TEST(EarlyExit, TheDepthPredictorLearnsAndDecides) {
  const Fixed m("{type: early_exit, depth_predictor: true}");
  const auto got = m.run("predictor", three()), steps = m.decode("predictor", three());
  EXPECT_EQ(got.layers, steps.layers);
  Model trained(config_of("{type: early_exit, depth_predictor: true}"), ModelOptions{.trainable = true});
  Tape tape;
  Pass pass;
  const Rows rows = trained.run({three().ids, three().sequences}, pass);
  ASSERT_EQ(pass.losses().count("exit_depth"), 1u);
  tape.backward(pass.losses().at("exit_depth"));
  EXPECT_TRUE(trained.parameters().find("stack.depth_predictor.weight")->master.grad().defined());
}

// Rows that a pass wants are those of the exits, and each head's loss is its own.
// oracle: exit.classifier
TEST(EarlyExit, EveryExitHasALoss) {
  const Fixed m("{type: early_exit, layers: [2, 4], share_heads: false, loss_weights: linear}");
  ASSERT_EQ(m.model.exits().size(), 2u);
  EXPECT_EQ(m.model.exits()[0].weight, 2.0 / kExitLayers);
  Pass pass;
  m.model.want_exits(pass);
  const Rows rows = m.model.run({three().ids, three().sequences}, pass);
  for (int64_t e = 0; e < 2; ++e) {
    LossSums by_tap, by_rule;
    m.model.loss_of_exit(e, m.model.exit_rows(pass, e, rows.sequences), {},
                         {.labels = three().labels, .sums = &by_tap});
    const Tensor logits = m.run(cat("layer:", 2 * e + 2), three()).logits;
    cross_entropy(Var(logits), three().labels, 0, 1, &by_rule);
    EXPECT_NEAR(by_tap.loss, by_rule.loss, 1e-10);
  }
}

TEST(EarlyExit, RefusesWhatCannotBe) {
  const auto refused = [](const std::string& stack, const std::string& more = "") {
    return kit::coded_error_of([&] { Fixed(stack, more); });
  };
  EXPECT_EQ(refused("{type: early_exit, layers: [5]}"),
            "2 early_exit: rows cannot leave early after layer 5 of 5; give layers from 1 to 4");
  EXPECT_EQ(refused("{type: early_exit, layers: [2, 2]}"),
            "2 early_exit: layer 2 stands twice in layers; name it once");
  EXPECT_EQ(refused("early_exit", "residual: rk2").substr(0, 8), "2 model:");
  const Fixed plain("plain"), two("{type: early_exit, layers: [2]}");
  EXPECT_EQ(kit::coded_error_of([&] { plain.run("entropy:0.5", three()); }).substr(0, 51),
            "2 exit: rule entropy:0.5: this model's stack, plain");
  EXPECT_EQ(
      kit::coded_error_of([&] { two.run("layer:3", three()); }),
      "2 exit: rule layer:3: there is no exit after that layer; this model has them after 2 (model.stack.layers)");
  EXPECT_EQ(kit::coded_error_of([&] { two.run("predictor", three()); }).substr(0, 29), "2 exit: rule predictor needs ");
  EXPECT_EQ(kit::coded_error_of([&] { two.run("entropy:0.5:sentence", three()); }).substr(0, 7), "2 exit:");
}

}  // namespace
}  // namespace lithe
