#include <gtest/gtest.h>

#include <cmath>

#include "lithe/autograd/piece.h"
#include "lithe/ops/basic.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

constexpr int64_t D = 4;

struct AsItIs final : Norm {
  Var forward(const Var& x) const override { return x; }
};

struct Adaptive {
  explicit Adaptive(const std::string& options, bool end_early = true)
      : part(bench.make<Residual>(
            "adaptive_rk", {.hidden_size = D, .norm = &norm, .dropout = &dropout},
            "{end_early: " + std::string(end_early ? "true" : "false") + ", " + options.substr(1))) {}
  Tensor operator()(const std::function<Var(const Var&)>& f, const Tensor& x) {
    evaluations = 0;
    return part
        ->forward(Var(x),
                  [&](const Var& at, int64_t stage) {
                    EXPECT_EQ(stage, evaluations++);
                    return f(at);
                  })
        .value();
  }
  // The factor on x of F(x) = lambda x.
  double factor(double lambda) {
    return value_at((*this)([=](const Var& at) { return scale(at, lambda); }, kit::tensor_f64({1, D}, {1, 1, 1, 1})),
                    0);
  }
  kit::Bench bench;
  AsItIs norm;
  Dropout dropout;
  std::unique_ptr<Residual> part;
  int64_t evaluations = 0;
};

struct Method {
  std::string name;
  int order;
  int64_t evaluations;
};
const std::vector<Method> kMethods{{"adaptive_heun", 2, 2}, {"bosh3", 3, 4}, {"dopri5", 5, 7}};

// A step that is always taken is the polynomial of its order (dopri5 has one more, smaller term).
// oracle: ode.neural
TEST(AdaptiveRk, OneStepIsOfTheMethodsOrder) {
  for (const Method& m : kMethods)
    for (const double lambda : {0.1, -0.05}) {
      Adaptive solver(cat("{method: ", m.name, ", max_steps: 1}"));
      EXPECT_EQ(solver.part->stages(), m.evaluations);
      double want = 1, term = 1;
      for (int i = 1; i <= m.order; ++i) want += term *= lambda / i;
      EXPECT_NEAR(solver.factor(lambda), want, m.order == 5 ? std::pow(lambda, 6) / 500 : 1e-15) << m.name;
      EXPECT_EQ(solver.evaluations, m.evaluations);
    }
}

// oracle: ode.neural
TEST(AdaptiveRk, TheErrorFollowsTheToleranceAndEasyRowsTakeFewSteps) {
  for (const Method& m : kMethods) {
    double last_error = 1;
    int64_t last = 0;
    for (const double tolerance : {1e-2, 1e-4, 1e-5}) {
      Adaptive solver(cat("{method: ", m.name, ", depth: 2, rtol: ", tolerance, ", atol: 0, max_steps: 1000}"));
      const double error = std::abs(solver.factor(1) / std::exp(2.0) - 1);
      EXPECT_LT(error, 10 * tolerance) << m.name;
      EXPECT_LT(error, last_error) << m.name;
      EXPECT_GT(solver.evaluations, last) << m.name;
      last_error = error;
      last = solver.evaluations;
    }
    EXPECT_LT(last, 1000 * m.evaluations);  // it ended when it was there
    Adaptive still(cat("{method: ", m.name, ", max_steps: 9}"));
    EXPECT_EQ(still.factor(0), 1);
    EXPECT_EQ(still.evaluations, m.evaluations);
  }
}

// However hard the field, the end is reached in the tries that there are.
TEST(AdaptiveRk, TheTriesAreBounded) {
  for (const int64_t tries : {1, 2, 3, 7}) {
    Adaptive solver(cat("{method: bosh3, rtol: 0, atol: 0, max_steps: ", tries, "}"));
    const double got = solver.factor(1);
    EXPECT_EQ(solver.evaluations, 4 * tries);
    EXPECT_NEAR(got, std::exp(1.0), 0.06) << tries;  // the whole length was gone
  }
}

// Rows are solved each by itself: the hard one does not change the bits of the easy one, nor the other way round.
TEST(AdaptiveRk, ARowsStepsAreItsOwn) {
  const auto f = [](const Var& at) { return mul(at, at); };  // z / (1 - l z)
  const Tensor easy = kit::tensor_f64({1, D}, {0.1, 0.2, 0.1, 0.3}),
               hard = kit::tensor_f64({1, D}, {0.8, 0.9, 0.7, 0.6}),
               both = kit::tensor_f64({2, D}, {0.1, 0.2, 0.1, 0.3, 0.8, 0.9, 0.7, 0.6});
  Adaptive solver("{method: dopri5, rtol: 1.0e-6, atol: 0, max_steps: 40}");
  const Tensor together = solver(f, both);
  const int64_t most = solver.evaluations;
  EXPECT_EQ(kit::bit_difference(clone(together.slice(0, 1)), solver(f, easy)), "");
  const int64_t least = solver.evaluations;
  EXPECT_EQ(kit::bit_difference(clone(together.slice(1, 2)), solver(f, hard)), "");
  EXPECT_LT(least, most);
  EXPECT_EQ(solver.evaluations, most);
  for (int64_t i = 0; i < 2 * D; ++i) {
    const double z = value_at(both, i);
    EXPECT_NEAR(value_at(together, i) * (1 - z) / z, 1, 1e-5);
  }
}

// oracle: ode.neural
TEST(AdaptiveRk, SolvingBackwardsRecoversTheInput) {
  const Tensor x = kit::normal({3, D}, DType::f64, 1);
  const auto f = [](const Var& at) { return add(mul(at, at), at, -0.2, 0.3); };
  const std::string how = "method: dopri5, rtol: 1.0e-9, atol: 1.0e-9, max_steps: 200}";
  Adaptive there("{depth: 1, " + how), back("{depth: -1, " + how);
  EXPECT_LE(kit::largest_difference(back(f, there(f, x)), x), 1e-7);
}

// Training runs every try, and gives the values and the gradients of the steps taken: those of exp(lambda).
TEST(AdaptiveRk, GradientsGoThroughTheStepsTaken) {
  Adaptive solver("{method: dopri5, depth: 2, rtol: 1.0e-7, atol: 0, max_steps: 60}");
  const Tensor x = kit::tensor_f64({1, D}, {1, 2, -1, 0.5});
  const auto field = [](const Var& at) { return scale(at, -0.7); };
  const Tensor without = solver(field, x);
  const int64_t ended = solver.evaluations;
  Adaptive all("{method: dopri5, depth: 2, rtol: 1.0e-7, atol: 0, max_steps: 60}", false);
  EXPECT_EQ(kit::bit_difference(all(field, x), without), "");
  EXPECT_EQ(all.evaluations, all.part->stages());
  Tape tape;
  const Var leaf = Var::leaf(x);
  solver.evaluations = 0;
  const Var y = solver.part->forward(leaf, [&](const Var& at, int64_t) {
    ++solver.evaluations;
    return field(at);
  });
  EXPECT_EQ(kit::bit_difference(y.value(), without), "");
  EXPECT_LT(ended, solver.evaluations);
  EXPECT_EQ(solver.evaluations, solver.part->stages());
  tape.backward(sum(y));
  for (int64_t i = 0; i < D; ++i) EXPECT_NEAR(value_at(leaf.grad(), i), std::exp(-1.4), 1e-6);
}

// Decoding may end with the last row's step; tokens to come find states of all evaluations.
TEST(AdaptiveRk, DecodesWhatTheWholeTextGives) {
  Tensor first;
  for (const char* end_early : {"false", "true"}) {
    const ModelConfig config = kit::model_config(cat(
        "{hidden_size: 8, num_hidden_layers: 2, vocab_size: 11, max_position_embeddings: 9, mixer: {type: attention, "
        "num_attention_heads: 2}, residual: {type: adaptive_rk, method: bosh3, rtol: 0.002, max_steps: 5, end_early: ",
        end_early, "}}"));
    Model model(config, {.dtype = DType::f64, .compute = DType::f64});
    const Tensor ids = kit::random_ids(7, 11, 3), whole = kit::forward(model, ids, Sequences::single(7)).value();
    if (first.defined()) {
      EXPECT_EQ(kit::bit_difference(whole, first), "");
    }
    first = clone(whole);
    for (const auto& [from, to] : {std::pair<int64_t, int64_t>{1, 1}, {3, 1}, {2, 4}}) {
      const auto state = model.make_state(1, 9);
      for (int64_t t = 0; t < 7;) {
        const int64_t n = std::min<int64_t>(t == 0 ? from : to, 7 - t);
        const Var rows =
            kit::forward(model, clone(ids.slice(t, t + n)), model.continue_sequences(*state, {n}), state.get());
        EXPECT_LE(kit::largest_difference(rows.value(), clone(whole.slice(t, t + n))), 1e-11) << t;
        t += n;
      }
      EXPECT_EQ(state->bytes(), model.state_bytes({7}));
    }
  }
}

}  // namespace
}  // namespace lithe
