#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/basic.h"
#include "tests/parts/residual/residual_kit.h"
#include "tests/support/errors.h"

namespace lithe {
namespace {

struct Rk {
  explicit Rk(const std::string& options)
      : part(bench.make<Residual>("rk", {.hidden_size = kResidualWidth, .norm = &norm, .dropout = &dropout}, options)) {
  }
  Tensor operator()(const std::function<Var(const Var&)>& f, const Tensor& x) {
    std::vector<int64_t> stages;
    const Tensor y = part->forward(Var(x),
                                   [&](const Var& at, int64_t stage) {
                                     stages.push_back(stage);
                                     return f(at);
                                   })
                         .value();
    for (size_t i = 0; i < stages.size(); ++i) EXPECT_EQ(stages[i], int64_t(i));
    EXPECT_EQ(int64_t(stages.size()), part->stages());
    return y;
  }
  // The factor on x of F(x) = lambda x.
  double factor(double lambda) {
    return value_at((*this)([=](const Var& at) { return scale(at, lambda); },
                            kit::tensor_f64({1, kResidualWidth}, {1, 1, 1, 1, 1})),
                    0);
  }
  kit::Bench bench;
  NoNorm norm;
  Dropout dropout;
  std::unique_ptr<Residual> part;
};

// oracle: ode.rk4
TEST(RungeKutta, ClassicalIsOfFourthOrderOnALinearField) {
  Rk rk("{method: rk4}");
  EXPECT_EQ(rk.part->stages(), 4);
  EXPECT_NEAR(rk.factor(1), 2.708333, 5e-7);
  EXPECT_NEAR(rk.factor(-0.5), 0.606771, 5e-7);
  EXPECT_EQ(rk.bench.parameters().count(), 0);
  const Tensor x = kit::normal({3, kResidualWidth}, DType::f64, 1);
  EXPECT_EQ(kit::bit_difference(rk([](const Var& at) { return scale(at, 0); }, x), x), "");
}

// oracle: ode.rk
TEST(RungeKutta, GivesThePolynomialOfItsOrder) {
  for (const auto& [method, order] :
       {std::pair<std::string, int>{"euler", 1}, {"midpoint", 2}, {"heun", 2}, {"kutta3", 3}, {"rk4", 4}})
    for (double lambda : {1.0, -0.5, 0.3}) {
      double want = 1, term = 1;
      for (int i = 1; i <= order; ++i) want += term *= lambda / i;
      EXPECT_NEAR(Rk("{method: " + method + "}").factor(lambda), want, 1e-14) << method;
    }
}

// oracle: ode.rk
TEST(RungeKutta, OfAConstantIsAnEulerStep) {
  const Tensor x = kit::normal({3, kResidualWidth}, DType::f64, 1), c = kit::normal({3, kResidualWidth}, DType::f64, 2);
  for (const std::string options : {"{method: euler}", "{method: midpoint}", "{method: heun}", "{method: kutta3}",
                                    "{method: rk4}", "{method: tableau, weights: [1]}"})
    EXPECT_LE(kit::largest_difference(Rk(options)([&](const Var&) { return Var(c); }, x), kit::sum(x, c)), 2e-15)
        << options;
}

// oracle: ode.rk
TEST(RungeKutta, ATableauIsTheMethodThatItNames) {
  EXPECT_EQ(Rk("{method: tableau, offsets: [0.5, 0, 0.5, 0, 0, 1], weights: [0.16666666666666666, "
               "0.3333333333333333, 0.3333333333333333, 0.16666666666666666]}")
                .factor(0.7),
            Rk("{method: rk4}").factor(0.7));
  EXPECT_EQ(kit::coded_error_of([] { Rk("{method: tableau, offsets: [1], weights: [1]}"); }),
            "2 rk: a tableau of s weights has s (s - 1) / 2 offsets, one for each evaluation before; got 1 weights and "
            "1 offsets");
  EXPECT_EQ(kit::coded_error_of([] { Rk("{method: heun, weights: [1]}"); }),
            "2 rk: method heun has its own numbers; leave offsets and weights out, or set method: tableau");
}

double error_after(const std::string& method, int64_t steps) {
  return std::abs(Rk(cat("{method: ", method, ", steps: ", steps, ", step: ", 1.0 / double(steps), "}")).factor(1) -
                  std::exp(1.0));
}

// oracle: ode.euler
TEST(RungeKutta, EulerStepsConvergeWithFirstOrder) {
  EXPECT_NEAR(Rk("{method: euler, step: 0.25}").factor(0.6), 1 + 0.25 * 0.6, 1e-15);
  EXPECT_NEAR(error_after("euler", 128) / error_after("euler", 256), 2, 0.05);
}

// oracle: ode.euler
// oracle: block.norm_variants
TEST(RungeKutta, AnEulerStepIsThePreNormBlock) {
  kit::Bench bench;
  Dropout dropout;
  const auto norm = bench.make<Norm>("layer", {.hidden_size = kResidualWidth});
  const auto pre =
                 bench.make<Residual>("pre", {.hidden_size = kResidualWidth, .norm = norm.get(), .dropout = &dropout}),
             euler = bench.make<Residual>(
                 "rk", {.hidden_size = kResidualWidth, .norm = norm.get(), .dropout = &dropout}, "{method: euler}");
  const Tensor x = kit::normal({3, kResidualWidth}, DType::f64, 1);
  const auto f = [](const Var& at, int64_t) { return mul(at, at); };
  EXPECT_EQ(kit::bit_difference(euler->forward(Var(x), f).value(), pre->forward(Var(x), f).value()), "");
}

// oracle: ode.rk4
// oracle: ode.neural
TEST(RungeKutta, DoublingTheStepsOfFourthOrderDividesTheErrorBySixteen) {
  EXPECT_NEAR(error_after("rk4", 16) / error_after("rk4", 32), 16, 0.6);
  EXPECT_EQ(Rk("{method: rk4, steps: 1}").factor(0.8), Rk("{method: rk4}").factor(0.8));
}

// oracle: ode.neural
TEST(RungeKutta, SolvingBackwardsRecoversTheInput) {
  const Tensor x = kit::normal({3, kResidualWidth}, DType::f64, 1);
  const auto f = [](const Var& at) { return add(mul(at, at), at, -0.2, 0.3); };
  Rk there("{steps: 50, step: 0.02}"), back("{steps: 50, step: -0.02}");
  EXPECT_LE(kit::largest_difference(back(f, there(f, x)), x), 1e-8);
}

// A state for each evaluation.
// oracle: ode.rk4
TEST(RungeKutta, DecodesWithAStateForEachEvaluation) {
  expect_decodes_with_states("{type: rk, method: rk4, steps: 2}", 8, 1e-11);
}

}  // namespace
}  // namespace lithe
