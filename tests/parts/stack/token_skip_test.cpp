#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"
#include "lithe/ops/norm.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

Model token_skip_model(const std::string& stack, const std::string& more = "head: classify", bool trainable = false) {
  Model model(kit::model_config(cat("{architecture: encoder, vocab_size: 19, hidden_size: 16, num_hidden_layers: 3, ",
                                    "num_labels: 3, tie_word_embeddings: false, max_position_embeddings: 32, "
                                    "mixer: {type: attention, num_attention_heads: 2}, ffn: {type: swiglu, "
                                    "intermediate_size: 24}, stack: ",
                                    stack, "}"),
                                more),
              ModelOptions{.dtype = DType::f64, .compute = DType::f64, .trainable = trainable});
  kit::randomise(model.parameters(), 6);
  return model;
}

const kit::Batch& token_skip_batch() {
  static const kit::Batch made = kit::random_batch({6, 2, 9}, 19, 2);
  return made;
}

Rows run(const Model& model, const kit::Batch& of) { return kit::run(model, of.ids, of.sequences); }

// oracle: cond.token_skip
TEST(TokenSkip, NothingSkippedIsThePlainModel) {
  const Tensor plain = run(token_skip_model("plain"), token_skip_batch()).x.value();
  for (const char* skipped : {"copy", "drop"})
    EXPECT_EQ(kit::bit_difference(run(token_skip_model(cat("{type: token_skip, threshold: 2, skipped: ", skipped, "}")),
                                      token_skip_batch())
                                      .x.value(),
                                  plain),
              "");
}

// Rows that are skipped come out as they were; the kept ones are what the upper layers make of them alone, with their
// old positions: of a model whose tokens all stand there, the others being dropped.
// oracle: cond.token_skip
TEST(TokenSkip, DroppedTokensLeaveTheUpperLayersAShorterSequence) {
  const Model copy = token_skip_model("{type: token_skip}"),
              drop = token_skip_model("{type: token_skip, skipped: drop}");
  const Rows all = run(copy, token_skip_batch()), kept = run(drop, token_skip_batch());
  ASSERT_LT(kept.sequences.rows(), token_skip_batch().sequences.rows());
  ASSERT_GE(kept.sequences.rows(), token_skip_batch().sequences.count());
  int64_t found = 0;
  for (int64_t r = 0; r < all.x.rows() && found < kept.x.rows(); ++r) {
    bool same = true;
    for (int64_t c = 0; c < 16; ++c)
      same = same && value_at(all.x.value(), r * 16 + c) == value_at(kept.x.value(), found * 16 + c);
    found += same;
  }
  EXPECT_EQ(found, kept.x.rows());
  // Positions: rotary attention sees distances alone, so those of the kept rows must be the old ones.
  Model plain = token_skip_model("plain");
  plain.skip({1, 2}, false);
  int64_t low = 0;
  const Tensor lower = run(plain, token_skip_batch()).x.value();
  for (int64_t r = 0; r < all.x.rows(); ++r) {
    double far = 0;
    for (int64_t c = 0; c < 16; ++c)
      far = std::max(far, std::abs(value_at(all.x.value(), r * 16 + c) - value_at(lower, r * 16 + c)));
    low += far < 1e-12;
  }
  EXPECT_EQ(low, token_skip_batch().sequences.rows() - kept.sequences.rows());  // as many came out of the lower layers
}

// oracle: cond.token_skip
TEST(TokenSkip, AllSkippedKeepsTheFirstAndTheLowerRows) {
  const Model model = token_skip_model("{type: token_skip, threshold: 0}");
  Model plain = token_skip_model("plain");
  plain.skip({1, 2}, false);
  const Tensor got = run(model, token_skip_batch()).x.value(), low = run(plain, token_skip_batch()).x.value();
  const Sequences& s = token_skip_batch().sequences;
  for (int64_t b = 0; b < s.count(); ++b)
    for (int64_t r = s.offset(b) + 1; r < s.offset(b + 1); ++r)
      for (int64_t c = 0; c < 16; ++c) EXPECT_NEAR(value_at(got, r * 16 + c), value_at(low, r * 16 + c), 1e-12);
  const Model none = token_skip_model("{type: token_skip, threshold: 0, keep_first: false, skipped: drop}");
  EXPECT_EQ(run(none, token_skip_batch()).sequences.rows(), s.count());  // one of each
}

// oracle: cond.token_skip
TEST(TokenSkip, SequencesDoNotSeeEachOther) {
  const Model model = token_skip_model("{type: token_skip}");
  const Rows all = run(model, token_skip_batch());
  for (int64_t b = 0; b < 3; ++b) {
    const Tensor alone = run(model, kit::alone(token_skip_batch(), b)).x.value();
    const int64_t begin = token_skip_batch().sequences.offset(b);
    for (int64_t i = 0; i < alone.numel(); ++i)
      EXPECT_NEAR(value_at(alone, i), value_at(all.x.value(), begin * 16 + i), 1e-12);
  }
}

// oracle: cond.token_skip
TEST(TokenSkip, TheClassifierHasItsParametersAndLearns) {
  Model model = token_skip_model("{type: token_skip, after: 2}", "head: classify", true);
  EXPECT_EQ(model.parameters().count(), token_skip_model("plain").parameters().count() + 2 * 16 + 2);
  step_context() = {1, 1};
  {
    Tape tape;
    Pass pass;
    const Rows rows = model.run({token_skip_batch().ids, token_skip_batch().sequences}, pass);
    ASSERT_EQ(pass.losses().count("token_budget"), 1u);
    const Var loss = model.loss_of(rows, {}, {.labels = kit::labels_for(model, token_skip_batch())});
    tape.backward(Model::with_losses(loss, pass));
  }
  step_context() = {};
  EXPECT_TRUE(model.parameters().find("stack.skip.weight")->master.grad().defined());
}

// A lower layer that changes nothing, and an upper one x + silu(-3 rms(x)), which does not see the size of a row and
// always stands against it.
struct OneUpperLayer final : Layers {
  int64_t count() const override { return 2; }
  Rows run(int64_t layer, const Rows& x, const Pass&, const std::vector<double>&) const override {
    if (layer == 0) return x;
    const Tensor minus_three = zeros({4}, DType::f64);
    for (int64_t c = 0; c < 4; ++c) set_value(minus_three, c, -3);
    const Var unit = normalise(kernels::NormKind::rms, x.x, Var(minus_three), {}, 1e-9);
    return {add(x.x, activate(kernels::Activation::silu, unit)), x.sequences};
  }
  void skip(int64_t, const Rows&, const Pass&) const override {}
  int64_t sub_layers(int64_t) const override { return 1; }
  Var change(int64_t, int64_t, const Rows&, const Pass&) const override { return {}; }
};

struct SkipAlone {
  explicit SkipAlone(const std::string& options)
      : stack(bench.make<Stack>("token_skip", {.hidden_size = 4, .num_hidden_layers = 2, .compute = DType::f64},
                                options)) {}
  Tensor rows(const Tensor& x) const { return run(x).x.value(); }
  /// Gradients of <weights, rows> in the classifier.
  void learn(const Tensor& x, const Tensor& weights) {
    for (Parameter& p : bench.parameters().all()) p.master.ref()->grad = Tensor();
    step_context() = {1, 1};
    Tape tape;
    tape.backward(run(x).x, clone(weights));
    step_context() = {};
  }
  Rows run(const Tensor& x) const {
    const Pass pass;
    return stack->forward(OneUpperLayer(), {Var(x), Sequences::single(x.rows())}, pass);
  }
  double skip_chance(const Tensor& x, int64_t row) {
    double logit = value_at(bench["part.skip.bias"], 1) - value_at(bench["part.skip.bias"], 0);
    for (int64_t c = 0; c < 4; ++c)
      logit += value_at(x, row * 4 + c) *
               (value_at(bench["part.skip.weight"], 2 * c + 1) - value_at(bench["part.skip.weight"], 2 * c));
    return 1 / (1 + std::exp(-logit));
  }
  kit::Bench bench;
  std::unique_ptr<Stack> stack;
};

// The derivative of the choice g upper(x) + (1 - g) x, with Pr(keep) for g, at the rows that were kept.
// oracle: cond.token_skip
TEST(TokenSkip, GradientsAreThoseOfTheSoftChoice) {
  SkipAlone alone("{budget_loss_coef: 0}");
  kit::randomise(alone.bench.parameters(), 3, 1);
  const Tensor x = kit::normal({12, 4}, DType::f64, 5), weights = kit::normal({12, 4}, DType::f64, 7),
               upper = OneUpperLayer().run(1, {Var(x), Sequences::single(12)}, Pass(), {}).x.value();
  std::vector<double> at;
  for (int64_t r = 0; r < 12; ++r) at.push_back(1 - alone.skip_chance(x, r));
  int64_t kept = 0;
  const auto soft = [&] {
    double sum = 0;
    kept = 0;
    for (int64_t r = 0; r < 12; ++r) {
      const bool runs = r == 0 || at[size_t(r)] > 0.5;
      const double g = runs + (runs ? 1 - alone.skip_chance(x, r) - at[size_t(r)] : 0);
      kept += runs;
      for (int64_t i = 4 * r; i < 4 * r + 4; ++i)
        sum += value_at(weights, i) * (g * value_at(upper, i) + (1 - g) * value_at(x, i));
    }
    return sum;
  };
  alone.learn(x, weights);
  for (Parameter& p : alone.bench.parameters().all()) {
    const Tensor value = p.master.value(), gradient = p.master.grad();
    ASSERT_TRUE(gradient.defined()) << p.name;
    for (int64_t i = 0; i < value.numel(); ++i) {
      const double before = value_at(value, i);
      set_value(value, i, before + 1e-5);
      const double more = soft();
      set_value(value, i, before - 1e-5);
      const double slope = (more - soft()) / 2e-5;
      set_value(value, i, before);
      EXPECT_NEAR(value_at(gradient, i), slope, 1e-8) << p.name << " " << i;
    }
  }
  EXPECT_GT(kept, 2);
  EXPECT_LT(kept, 12);
}

// Half of the tokens, told by their first channel, are worse off for the upper layer, the others better.
// oracle: cond.token_skip
TEST(TokenSkip, LearnsWhatToSkip) {
  SkipAlone alone("{budget_loss_coef: 0}");
  const Tensor x = kit::normal({24, 4}, DType::f64, 5);
  for (int64_t r = 0; r < 24; ++r) set_value(x, 4 * r, r % 2 ? -2 : 2);
  const Tensor upper = OneUpperLayer().run(1, {Var(x), Sequences::single(24)}, Pass(), {}).x.value(), loss = clone(x);
  for (int64_t i = 0; i < 96; ++i) set_value(loss, i, (i / 4 % 2 ? 1 : -1) * (value_at(upper, i) - value_at(x, i)));
  const auto skipped = [&](int64_t kind) {
    const Tensor y = alone.rows(x);
    int64_t count = 0;
    for (int64_t r = kind; r < 24; r += 2) count += value_at(y, 4 * r) == value_at(x, 4 * r);
    return count;
  };
  EXPECT_EQ(skipped(0) + skipped(1), 0);
  for (int step = 0; step < 100; ++step) {
    alone.learn(x, loss);
    for (Parameter& p : alone.bench.parameters().all())
      for (int64_t i = 0; i < p.master.value().numel(); ++i)
        set_value(p.master.value(), i, value_at(p.master.value(), i) - 0.1 * value_at(p.master.grad(), i));
  }
  EXPECT_EQ(skipped(0), 0);   // the better ones
  EXPECT_EQ(skipped(1), 12);  // the worse
}

TEST(TokenSkip, RefusesDecodersAndHeadsThatMissTokens) {
  EXPECT_EQ(kit::coded_error_of([] { token_skip_model("token_skip", "architecture: decoder, head: lm"); }),
            "2 model: stack token_skip needs rows that see their whole sequence, which architecture decoder does not "
            "have; use it in an encoder, or set model.stack: plain");
  EXPECT_EQ(
      kit::coded_error_of([] { token_skip_model("{type: token_skip, skipped: drop}", "head: tag"); }),
      "2 model: head tag predicts for every token, and stack token_skip makes fewer rows of them; set model.stack "
      "skipped: copy, or choose a head that predicts for whole sequences, as classify does");
  EXPECT_EQ(kit::coded_error_of([] { token_skip_model("{type: token_skip, after: 3}"); }),
            "2 token_skip: after is 3, which leaves no upper layer of 3; choose at most 2");
}

}  // namespace
}  // namespace lithe
