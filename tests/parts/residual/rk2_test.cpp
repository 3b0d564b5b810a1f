#include <gtest/gtest.h>

#include "lithe/ops/basic.h"
#include "tests/parts/residual/residual_kit.h"

namespace lithe {
namespace {

Tensor step(const std::string& method, const std::function<Var(const Var&)>& f, const Tensor& x) {
  kit::Bench bench;
  const NoNorm norm;
  const Dropout dropout;
  const auto part = bench.make<Residual>("rk2", {.hidden_size = kResidualWidth, .norm = &norm, .dropout = &dropout},
                                         "{method: " + method + "}");
  std::vector<int64_t> stages;
  const Tensor y = part->forward(Var(x),
                                 [&](const Var& at, int64_t stage) {
                                   stages.push_back(stage);
                                   return f(at);
                                 })
                       .value();
  EXPECT_EQ(stages, (std::vector<int64_t>{0, 1}));
  EXPECT_EQ(part->stages(), 2);
  return y;
}

// F(x) = lambda x: the factor is 1 + lambda + lambda^2 / 2.
// oracle: ode.rk2
TEST(Rk2, IsOfSecondOrderOnALinearField) {
  const Tensor x = kit::normal({3, kResidualWidth}, DType::f64, 1);
  for (const std::string method : {"heun", "midpoint"})
    for (const auto& [lambda, factor] : {std::pair{1.0, 2.5}, {-0.5, 0.625}}) {
      const Tensor y = step(
          method, [lambda = lambda](const Var& at) { return scale(at, lambda); }, x);
      EXPECT_LE(kit::largest_difference(y, scale(Var(x), factor).value()), 1e-14) << method << " " << lambda;
    }
}

// oracle: ode.rk2
TEST(Rk2, OfAConstantIsAnEulerStep) {
  const Tensor x = kit::normal({3, kResidualWidth}, DType::f64, 1), c = kit::normal({3, kResidualWidth}, DType::f64, 2);
  for (const std::string method : {"heun", "midpoint"})
    EXPECT_LE(kit::largest_difference(step(
                                          method, [&](const Var&) { return Var(c); }, x),
                                      kit::sum(x, c)),
              1e-15);
}

// Without weights the gate is one half.
// oracle: ode.rk2
TEST(Rk2, GatedIsHeunAtOneHalfAndASingleSlopeAtTheEnds) {
  kit::Bench bench;
  const NoNorm norm;
  const Dropout dropout;
  const auto part = bench.make<Residual>("rk2", {.hidden_size = kResidualWidth, .norm = &norm, .dropout = &dropout},
                                         "{method: gated}");
  EXPECT_EQ(bench.parameters().count(), 2 * kResidualWidth * kResidualWidth + kResidualWidth);
  const Tensor x = kit::normal({3, kResidualWidth}, DType::f64, 1);
  const auto run = [&](double bias) {
    for (const char* name : {"part.gate.first.weight", "part.gate.second.weight"})
      kit::assign(bench[name], std::vector<double>(kResidualWidth * kResidualWidth, 0));
    kit::assign(bench["part.gate.first.bias"], std::vector<double>(kResidualWidth, bias));
    return part->forward(Var(x), [](const Var& at, int64_t) { return mul(at, at); }).value();
  };
  const Tensor heun = step(
      "heun", [](const Var& at) { return mul(at, at); }, x);
  EXPECT_EQ(kit::bit_difference(run(0), heun), "");
  EXPECT_LE(kit::largest_difference(run(80), add(Var(x), mul(Var(x), Var(x))).value()), 1e-14);
}

// Each stage has a state of its own, and dropout of its own.
// oracle: ode.rk2
TEST(Rk2, DecodesWithAStateForEachStage) { expect_decodes_with_states("rk2", 2, 1e-12); }

}  // namespace
}  // namespace lithe
