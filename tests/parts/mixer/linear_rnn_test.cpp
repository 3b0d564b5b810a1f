#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Chain {
  Chain(int64_t d, const std::string& options)
      : mixer(bench.make<Mixer>("linear_rnn", {.hidden_size = d, .max_position_embeddings = 40}, options)) {}
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

// oracle: rnn.linear
TEST(LinearRnnMixer, IsASumOfPowers) {
  for (const std::string per_channel : {"true", "false"}) {
    Chain chain(3, cat("{per_channel: ", per_channel, "}"));
    kit::randomise(chain.bench.parameters(), 3);
    const Tensor x = kit::normal({6, 3}, DType::f64, 1), y = chain(x), a = chain.bench["part.a"],
                 b = chain.bench["part.b"];
    for (int64_t i = 0; i < 6; ++i)
      for (int64_t c = 0; c < 3; ++c) {
        double sum = 0;
        for (int64_t j = 0; j <= i; ++j)
          sum +=
              value_at(b, c % b.numel()) * std::pow(value_at(a, c % a.numel()), double(i - j)) * value_at(x, j * 3 + c);
        EXPECT_NEAR(value_at(y, i * 3 + c), sum, 1e-13 * (1 + std::abs(sum)));
      }
  }
}

// oracle: rnn.linear
TEST(LinearRnnMixer, WithoutAPastItIsPointwise) {
  Chain chain(3, "{decay_init: 0}");
  const Tensor x = kit::normal({5, 3}, DType::f64, 1);
  EXPECT_EQ(kit::bit_difference(chain(x), x), "");  // b starts as 1 - a
}

// oracle: rnn.linear
TEST(LinearRnnMixer, IsLinearInItsRows) {
  Chain chain(4, "{}");
  kit::randomise(chain.bench.parameters(), 3);
  const Tensor x = kit::normal({5, 4}, DType::f64, 1), y = kit::normal({5, 4}, DType::f64, 2), both = empty_like(x);
  for (int64_t i = 0; i < 20; ++i) set_value(both, i, 2 * value_at(x, i) - 3 * value_at(y, i));
  const Tensor fx = chain(x), fy = chain(y), fb = chain(both);
  for (int64_t i = 0; i < 20; ++i)
    EXPECT_NEAR(value_at(fb, i), 2 * value_at(fx, i) - 3 * value_at(fy, i), 1e-13 * (1 + std::abs(value_at(fb, i))));
}

TEST(LinearRnnMixer, GatesOfTokensReplaceTheNumbers) {
  // Eq 3-5 of the quasi-recurrent network: z = f z + (1 - f) tanh(s), times the output gate.
  Chain chain(3, "{gate: forget, projections: true, output_gate: true}");
  kit::randomise(chain.bench.parameters(), 3);
  const Tensor x = kit::normal({5, 3}, DType::f64, 1), y = chain(x);
  const auto map = [&](const char* name) { return kit::product(x, chain.bench[cat("part.", name, ".weight")]); };
  const Tensor f = map("forget"), s = map("values"), o = map("gate"), fb = chain.bench["part.forget.bias"],
               ob = chain.bench["part.gate.bias"];
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  for (int64_t c = 0; c < 3; ++c) {
    double z = 0;
    for (int64_t t = 0; t < 5; ++t) {
      const double keep = sigmoid(value_at(f, t * 3 + c) + value_at(fb, c));
      z = keep * z + (1 - keep) * std::tanh(value_at(s, t * 3 + c));
      EXPECT_NEAR(value_at(y, t * 3 + c), z * sigmoid(value_at(o, t * 3 + c) + value_at(ob, c)), 1e-13);
    }
  }
}

TEST(LinearRnnMixer, ParametersAreTwoOrTwoAChannel) {
  EXPECT_EQ(Chain(7, "{per_channel: false}").bench.parameters().count(), 2);
  EXPECT_EQ(Chain(7, "{}").bench.parameters().count(), 14);
  EXPECT_EQ(Chain(7, "{}").mixer->state_bytes({5, 6}, DType::f32), 2 * 7 * 4);
}

}  // namespace
}  // namespace lithe
