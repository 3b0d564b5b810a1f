#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Crossing {
  explicit Crossing(const std::string& field, bool cross = true, const std::string& output = "dense")
      : mixer(bench.make<Mixer>("attention", {.hidden_size = 8, .causal = false, .cross = cross},
                                "{num_attention_heads: 2, output: " + output + ", field: " + field + "}")) {
    kit::randomise(bench.parameters(), 5);
  }
  Tensor operator()(const Tensor& x, const Tensor& source) const {
    const Rows rows{Var(source), Sequences::single(source.rows())};
    return mixer->forward({.x = Var(x), .sequences = Sequences::single(x.rows()), .source = &rows}).value();
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

const Tensor x = kit::normal({5, 8}, DType::f64, 1), source = kit::normal({7, 8}, DType::f64, 2);

// oracle: attn.local_prior_cross
TEST(LocalPriorCross, WithoutItsFactorItIsCrossAttention) {
  EXPECT_LE(
      kit::largest_difference(Crossing("{type: local_prior_cross, gamma: 0}")(x, source), Crossing("full")(x, source)),
      1e-12);
}

// oracle: attn.local_prior_cross
TEST(LocalPriorCross, AlongTheDiagonalItIsTheGaussianOfSelfAttention) {
  const Crossing cross("{type: local_prior_cross, centre: diagonal, window: 4}"),
      self("{type: local_prior, sigma: 2}", false);
  const Tensor own = self.mixer->forward({Var(x), Sequences::single(5), nullptr}).value();
  EXPECT_LE(kit::largest_difference(cross(x, x), own), 1e-12);
}

// oracle: attn.local_prior_cross
TEST(LocalPriorCross, ANarrowOnePicksTheNearestToken) {
  Crossing cross("{type: local_prior_cross, window: 0.002, predictor_dim: 3}", true, "none");
  const Tensor y = cross(x, source), values = kit::product(source, cross.bench["part.heads.v.weight"]);
  const Tensor w = cross.bench["part.field.centre.hidden.weight"], v = cross.bench["part.field.centre.out.weight"];
  for (int64_t i = 0; i < 5; ++i) {
    double z = 0;
    for (int64_t c = 0; c < 3; ++c) {
      double hidden = 0;
      for (int64_t k = 0; k < 8; ++k) hidden += value_at(x, i * 8 + k) * value_at(w, k * 3 + c);
      z += std::tanh(hidden) * value_at(v, c);
    }
    const double mu = 1 + 6 / (1 + std::exp(-z));  // places from 1, as printed
    EXPECT_GE(mu, 1);
    EXPECT_LE(mu, 7);
    const int64_t nearest = std::lround(mu) - 1;
    for (int64_t c = 0; c < 8; ++c) EXPECT_NEAR(value_at(y, i * 8 + c), value_at(values, nearest * 8 + c), 1e-9) << mu;
  }
}

TEST(LocalPriorCross, HasNoCausalForm) {
  kit::Bench bench;
  EXPECT_EQ(kit::coded_error_of([&] {
              bench.make<Mixer>("attention", {.hidden_size = 8}, "{num_attention_heads: 2, field: local_prior_cross}");
            }).substr(0, 2),
            "2 ");
}

}  // namespace
}  // namespace lithe
