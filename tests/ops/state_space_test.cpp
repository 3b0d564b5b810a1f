#include "lithe/ops/state_space.h"

#include <cmath>

#include "tests/ops/ops_kit.h"

namespace lithe {
namespace {

constexpr Discretisation kDiscretisations[] = {Discretisation::euler, Discretisation::bilinear, Discretisation::zoh};

std::pair<double, double> scalar(Discretisation kind, double A, double D) {
  const auto out =
      discretise(kind, Var(kit::tensor_f64({1}, {std::log(-A)})), {}, Var(kit::tensor_f64({1}, {std::log(D)})));
  return {value_at(out[0].value(), 0), value_at(out[1].value(), 0)};
}

// oracle: ssm.continuous, ssm.euler, ssm.bilinear, ssm.zoh
TEST(Discretise, GivesTheWorkedNumbers) {
  const std::pair<double, double> want[] = {{.9, .1}, {.904762, .095238}, {.904837, .095163}};
  for (int i = 0; i < 3; ++i) {
    const auto [a, b] = scalar(kDiscretisations[i], -1, 0.1);
    EXPECT_NEAR(a, want[i].first, 5e-7);
    EXPECT_NEAR(b, want[i].second, 5e-7);
  }
  // The printed signs (E31) discretise -A: (1 + D/2) / (1 - D/2) = 1.105263 grows.
  const auto [a, b] = scalar(Discretisation::bilinear, -1, 0.1);
  EXPECT_NEAR(1 / a, 1.105263, 5e-7);
  EXPECT_LT(a, 1);
  EXPECT_GT(b, 0);
}

// oracle: ssm.continuous
TEST(Discretise, TheResponseIsThatOfThePage) {
  const auto [a, b] = scalar(Discretisation::zoh, -1, 0.1);
  const double s[] = {1, 0, 0, 2}, want[] = {.095163, .086107, .077913, .260823};
  double z = 0;
  for (int t = 0; t < 4; ++t) {
    z = a * z + b * s[t];
    EXPECT_NEAR(z, want[t], 5e-7);
  }
}

// oracle: ssm.euler, ssm.bilinear, ssm.zoh
TEST(Discretise, LocalErrorsHaveTheirOrders) {
  const auto error = [](Discretisation kind, double D) { return std::abs(scalar(kind, -1, D).first - std::exp(-D)); };
  EXPECT_NEAR(error(Discretisation::euler, 0.02) / error(Discretisation::euler, 0.01), 4, 0.1);
  EXPECT_NEAR(error(Discretisation::bilinear, 0.02) / error(Discretisation::bilinear, 0.01), 8, 0.2);
  EXPECT_LT(error(Discretisation::zoh, 0.5), 1e-15);  // exact for inputs that stay between steps
}

// oracle: ssm.continuous
TEST(Discretise, AStateThatDoesNotDecaySumsItsInput) {
  // A = 0 would divide by zero in the closed form (E32); here it is so near that only the series gives b = D.
  const auto [a, b] = scalar(Discretisation::zoh, -1e-300, 0.1);
  EXPECT_EQ(a, 1);
  EXPECT_NEAR(b, 0.1, 1e-16);
}

// oracle: ssm.bilinear
TEST(Discretise, TheTrapezoidalRuleIsStableForEveryStep) {
  for (const double D : {0.01, 1.0, 100.0})
    for (const double w : {0.0, 3.0, 500.0}) {
      const auto out = discretise(Discretisation::bilinear, Var(kit::tensor_f64({1}, {std::log(0.5)})),
                                  Var(kit::tensor_f64({1}, {w})), Var(kit::tensor_f64({1}, {std::log(D)})));
      EXPECT_LT(std::hypot(value_at(out[0].value(), 0), value_at(out[0].value(), 1)), 1);
    }
}

TEST(Discretise, Gradients) {
  for (const Discretisation kind : kDiscretisations)
    for (const int64_t steps : {1, 3}) {
      const std::vector<Tensor> inputs{kit::normal({3}, DType::f64, 1), kit::normal({3}, DType::f64, 2, 2),
                                       kit::normal({steps}, DType::f64, 3, 0.5)};
      for (const int which : {0, 1}) {
        kit::expect_gradients(
            [&](const std::vector<Var>& in) { return discretise(kind, in[0], in[1], in[2])[size_t(which)]; }, inputs);
        kit::expect_gradients(
            [&](const std::vector<Var>& in) { return discretise(kind, in[0], {}, in[1])[size_t(which)]; },
            {inputs[0], inputs[2]});
      }
    }
}

}  // namespace
}  // namespace lithe
