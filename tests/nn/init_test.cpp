#include "lithe/nn/init.h"

#include <gtest/gtest.h>

#include <cmath>
#include <csignal>

#include "lithe/base/stop.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

Tensor made(const InitConfig& config, const Shape& shape = {6, 6}, InitRole role = InitRole::matrix,
            const std::string& name = "w", uint64_t seed = 1, int64_t layer = 0, int64_t layers = 4) {
  const Tensor x = empty(shape, DType::f64);
  initialise(x, config, role, name, seed, layer, layers);
  return x;
}

struct Moments {
  double mean = 0, variance = 0, fourth = 0, largest = 0;
};
Moments moments(const Tensor& x) {
  Moments m;
  const double n = double(x.numel());
  for (double v : kit::values(x)) m.mean += v / n, m.largest = std::max(m.largest, std::abs(v));
  for (double v : kit::values(x))
    m.variance += (v - m.mean) * (v - m.mean) / n, m.fourth += std::pow(v - m.mean, 4) / n;
  return m;
}

// Mean and variance within four standard errors of n draws.
void expect_moments(const Tensor& x, double variance) {
  const Moments m = moments(x);
  const double n = double(x.numel());
  EXPECT_NEAR(m.mean, 0, 4 * std::sqrt(variance / n));
  EXPECT_NEAR(m.variance, variance, 4 * std::sqrt((m.fourth - m.variance * m.variance) / n));
}

// A normal cut at two deviations has the variance 1 - 4 phi(2) / (2 Phi(2) - 1) = 0.7737413.
TEST(Init, TruncatedNormalStaysWithinTwoDeviations) {
  const Tensor x = made({.type = "truncated_normal", .std = 0.02}, {300, 200});
  expect_moments(x, 0.7737413 * 0.02 * 0.02);
  EXPECT_LE(moments(x).largest, 0.04);
  EXPECT_GE(moments(x).largest, 0.0399);
}

// oracle: init.xavier_uniform
TEST(Init, XavierUniformIsFlatWithinEta) {
  const InitConfig config{.type = "xavier_uniform"};
  // d_in = d_out = 6: eta = sqrt(6/12) = 0.707107 and variance eta^2/3 = 1/6.
  EXPECT_LE(moments(made(config)).largest, 0.707107);
  const Tensor many = made(config, {300, 200});
  const double eta = std::sqrt(6.0 / 500);
  expect_moments(many, eta * eta / 3);
  EXPECT_LE(moments(many).largest, eta);
  EXPECT_GT(moments(many).largest, 0.999 * eta);  // 60000 draws come close to the bound
  // The shape of a flat distribution: fourth moment 9/5 of the squared variance.
  EXPECT_NEAR(moments(many).fourth / std::pow(moments(many).variance, 2), 1.8, 0.05);
  // Variance 1/6 at 6 x 6, over many matrices.
  double variance = 0;
  for (uint64_t seed = 0; seed < 500; ++seed)
    for (double v : kit::values(made(config, {6, 6}, InitRole::matrix, "w", seed))) variance += v * v / (500 * 36);
  EXPECT_NEAR(variance, 1.0 / 6, 4 * std::sqrt(0.8 / 36.0 / (500 * 36)));
}

// oracle: init.xavier_normal
TEST(Init, XavierNormalHasAThirdOfEtaSquaredUnlessLiteral) {
  const double eta2 = 6.0 / 500;
  const Tensor standard = made({.type = "xavier_normal"}, {300, 200}),
               literal = made({.type = "xavier_normal", .literal = true}, {300, 200});
  expect_moments(standard, eta2 / 3);
  expect_moments(literal, eta2);
  EXPECT_NEAR(moments(standard).fourth / std::pow(moments(standard).variance, 2), 3, 0.15);  // bell-shaped
  for (int64_t i = 0; i < 20; ++i) EXPECT_NEAR(value_at(literal, i), std::sqrt(3.0) * value_at(standard, i), 1e-15);
}

TEST(Init, GainMultiplies) {
  const Tensor one = made({.type = "xavier_uniform"}), three = made({.type = "xavier_uniform", .gain = 3});
  for (int64_t i = 0; i < 36; ++i) EXPECT_NEAR(value_at(three, i), 3 * value_at(one, i), 1e-15);
}

double deviation_ratio(const InitConfig& a, const InitConfig& b, int64_t layer_a = 0, int64_t layer_b = 0,
                       int64_t layers_a = 4, int64_t layers_b = 4, InitRole role = InitRole::matrix) {
  const Tensor x = made(a, {6, 6}, role, "w", 1, layer_a, layers_a),
               y = made(b, {6, 6}, role, "w", 1, layer_b, layers_b);
  return value_at(x, 0) / value_at(y, 0);  // the same draws
}

// oracle: init.depth_power
TEST(Init, DepthPowerMultipliesByAPowerOfTheDepth) {
  const InitConfig plain{.type = "xavier_normal"};
  InitConfig power = plain;
  power.depth = "power";
  power.depth_a = 2;
  power.depth_b = 0;
  EXPECT_NEAR(deviation_ratio(power, plain), 2, 1e-15);  // b = 0: Xavier times a, in any layer of any depth
  EXPECT_NEAR(deviation_ratio(power, plain, 3, 0, 12), 2, 1e-15);
  for (double b : {0.5, -0.25, 1.0}) {
    power.depth_b = b;
    EXPECT_NEAR(deviation_ratio(power, power, 0, 0, 8, 4), std::pow(2, b), 1e-14) << b;  // doubling L multiplies by 2^b
    EXPECT_NEAR(deviation_ratio(power, power, 7, 0, 8, 8), 1, 1e-15);                    // in all layers alike
  }
}

TEST(Init, DeepNormShrinksValuesAndOutputsOnly) {
  const InitConfig config{.type = "xavier_normal", .depth = "deepnorm"};
  EXPECT_NEAR(depth_gain(config, InitRole::matrix, 0, 1), 0.594604, 5e-7);
  EXPECT_NEAR(depth_gain(config, InitRole::matrix, 3, 12), 0.319472, 5e-7);
  EXPECT_NEAR(depth_gain(config, InitRole::residual_output, 3, 12), 0.319472, 5e-7);
  for (InitRole role : {InitRole::query_key, InitRole::embedding, InitRole::zeros, InitRole::ones})
    EXPECT_EQ(depth_gain(config, role, 3, 12), 1);
  EXPECT_EQ(depth_gain(config, InitRole::matrix, -1, 12), 1);  // outside the layers: the head
}

// oracle: init.depth_scaled
TEST(Init, DepthScaledDividesByAPowerOfTheLayer) {
  InitConfig scaled{.type = "xavier_uniform", .depth = "scaled", .depth_a = 1, .depth_b = 0.5};
  EXPECT_NEAR(deviation_ratio(scaled, scaled, 3, 0), 0.5, 1e-15);  // layer 4 has half the deviation of layer 1
  double previous = 2;
  for (int64_t layer = 0; layer < 12; ++layer) {
    const double gain = depth_gain(scaled, InitRole::matrix, layer, 12);
    EXPECT_LT(gain, previous);
    previous = gain;
  }
  InitConfig power = scaled;
  scaled.depth_b = 0;
  power.depth = "power";
  power.depth_b = 0;
  EXPECT_EQ(kit::bit_difference(made(scaled, {6, 6}, InitRole::matrix, "w", 1, 5, 9),
                                made(power, {6, 6}, InitRole::matrix, "w", 1, 5, 9)),
            "");
}

TEST(Init, NormalShrinksWhatFeedsTheResidualStream) {
  const InitConfig config{.std = 0.5};
  expect_moments(made(config, {300, 200}), 0.25);
  expect_moments(made(config, {300, 200}, InitRole::residual_output), 0.25 / 8);  // 2 x 4 layers
  expect_moments(made({.std = 0.5, .scale_residual_outputs = false}, {300, 200}, InitRole::residual_output), 0.25);
  expect_moments(made({.type = "xavier_uniform", .std = 0.5}, {300, 200}, InitRole::embedding),
                 0.25);  // tables never by Xavier
}

double norm_of(const std::vector<double>& x) {
  double sum = 0;
  for (const double each : x) sum += each * each;
  return std::sqrt(sum);
}

std::vector<double> times(const std::vector<double>& x, const Tensor& w) {
  std::vector<double> y(static_cast<size_t>(w.cols()), 0);
  for (int64_t i = 0; i < w.rows(); ++i)
    for (int64_t j = 0; j < w.cols(); ++j) y[size_t(j)] += x[size_t(i)] * value_at(w, i * w.cols() + j);
  return y;
}

// oracle: init.lipschitz
TEST(Init, LipschitzBoundsTheLargestSingularValue) {
  for (const Shape& shape : {Shape{6, 6}, {40, 12}, {12, 40}, {64, 64}})
    for (const double c : {0.5, 1.0}) {
      const InitConfig config{.type = "lipschitz", .gain = c};
      const Tensor w = made(config, shape), xavier = made({.type = "xavier_uniform"}, shape);
      EXPECT_EQ(kit::bit_difference(w, made(config, shape)), "");
      // The map does not move two points further apart than c times, whichever they are; power iteration in
      // exact arithmetic would converge to the worst of them.
      std::vector<double> x(static_cast<size_t>(shape[0]));
      for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(1.0 + double(i * i));
      double sigma = 0;
      for (int i = 0; i < 3000; ++i) {
        const double before = norm_of(x);
        const std::vector<double> y = times(x, w);
        sigma = norm_of(y) / before;
        ASSERT_LE(sigma, c * (1 + 1e-3));
        for (size_t r = 0; r < x.size(); ++r) {
          x[r] = 0;
          for (size_t k = 0; k < y.size(); ++k) x[r] += value_at(w, int64_t(r * y.size() + k)) * y[k];
        }
        const double size = norm_of(x);
        for (double& each : x) each /= size;
      }
      EXPECT_GE(sigma, c * (1 - 1e-3));  // and it is reached: Xavier matrices are larger
      const double ratio = value_at(w, 0) / value_at(xavier, 0);
      for (int64_t i = 0; i < w.numel(); ++i) EXPECT_NEAR(value_at(w, i), ratio * value_at(xavier, i), 1e-14);
    }
  EXPECT_EQ(kit::bit_difference(made({.type = "lipschitz", .gain = 9}), made({.type = "xavier_uniform"})), "");
}

TEST(Init, BiasesStartAtZeroAndNormsAtOne) {
  EXPECT_EQ(kit::values(made({.type = "xavier_normal", .depth = "power"}, {3}, InitRole::zeros)),
            (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(kit::values(made({.type = "xavier_normal", .depth = "power"}, {3}, InitRole::ones)),
            (std::vector<double>{1, 1, 1}));
}

TEST(Init, ValuesAreAFunctionOfSeedNameAndElement) {
  const InitConfig config{.type = "xavier_normal"};
  EXPECT_EQ(kit::bit_difference(made(config), made(config)), "");
  EXPECT_NE(kit::bit_difference(made(config), made(config, {6, 6}, InitRole::matrix, "w", 2)), "");
  EXPECT_NE(kit::bit_difference(made(config), made(config, {6, 6}, InitRole::matrix, "v", 1)), "");
  // The same name and shape in another model: the same numbers, whatever else is there.
  kit::Bench alone, crowded;
  crowded.scope("other").parameter("weight", {5, 5}, InitRole::matrix);
  EXPECT_EQ(kit::bit_difference(alone.scope("a").parameter("weight", {4, 3}, InitRole::matrix)->master.value(),
                                crowded.scope("a").parameter("weight", {4, 3}, InitRole::matrix)->master.value()),
            "");
}

TEST(Init, RolesReachTheModelsMatrices) {
  // deepnorm: value and output matrices of 2 layers shrink by 16^(-1/4) = 1/2, queries and keys do not.
  const std::string base =
      "vocab_size: 5, hidden_size: 8, num_hidden_layers: 2, max_position_embeddings: 4, mixer: {type: attention, "
      "num_attention_heads: 2}, ffn: relu, tie_word_embeddings: false";
  Model plain(kit::model_config("{" + base + ", init: {type: xavier_uniform}}"), {}),
      deep(kit::model_config("{" + base + ", init: {type: xavier_uniform, depth: deepnorm}}"), {});
  for (const Parameter& p : plain.parameters().all()) {
    if (!p.decay) continue;
    const bool shrinks =
        p.name.starts_with("layers.") && !p.name.ends_with("heads.q.weight") && !p.name.ends_with("heads.k.weight");
    EXPECT_NEAR(value_at(deep.parameters().find(p.name)->master.value(), 1) / value_at(p.master.value(), 1),
                shrinks ? 0.5 : 1, 1e-6)
        << p.name;
  }
}

// Hundreds of millions of numbers take seconds: a signal ends that, and nothing goes on with half of them.
TEST(Init, ASignalIsHeardWhileWeightsAreMade) {
  set_stop_signal(SIGTERM);
  EXPECT_NE(kit::error_of([] { made({}); }).find("stopped by signal 15; its weights were not made"), std::string::npos);
  set_stop_signal(0);
  EXPECT_EQ(kit::error_of([] { made({}); }), "no error");
}

}  // namespace
}  // namespace lithe
