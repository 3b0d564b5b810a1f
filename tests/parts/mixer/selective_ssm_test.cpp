#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

// The loop of the paper: state <- e^(-D A) state + D B^T x, y = C state + skip x, gated; channel by channel.
TEST(SelectiveSsmMixer, IsTheLoopOfThePaper) {
  const int64_t d = 3, n = 2, T = 6;
  kit::Bench bench;
  const auto mixer =
      bench.make<Mixer>("selective_ssm", {.hidden_size = d},
                        "{num_heads: 3, expand: 1, state_size: 2, kernel_size: 2, output_norm: false, output: none}");
  kit::randomise(bench.parameters(), 2);
  const Tensor rows = kit::normal({T, d}, DType::f64, 1),
               got = mixer->forward({Var(rows), Sequences::single(T), nullptr}).value();
  const auto at = [&](const std::string& name, int64_t i) { return value_at(bench["part." + name], i); };
  const auto silu = [](double v) { return v / (1 + std::exp(-v)); };
  const Tensor values = kit::product(rows, bench["part.values.weight"]),
               gate = kit::product(rows, bench["part.gate.weight"]), x = empty({T, d}, DType::f64);
  for (int64_t t = 0; t < T; ++t)
    for (int64_t c = 0; c < d; ++c) {
      double sum = at("convolution.bias", c);
      for (int64_t r = 0; r < 2 && r <= t; ++r)
        sum += at("convolution.taps", r * d + c) * value_at(values, (t - r) * d + c);
      set_value(x, t * d + c, silu(sum));
    }
  const Tensor B = kit::product(x, bench["part.write.weight"]), C = kit::product(x, bench["part.read.weight"]),
               raw = kit::product(x, bench["part.step.weight"]);
  for (int64_t c = 0; c < d; ++c) {
    double state[2] = {0, 0};
    for (int64_t t = 0; t < T; ++t) {
      const double D = std::log1p(std::exp(value_at(raw, t * d + c) + at("step.bias", c)));
      double y = at("skip", c) * value_at(x, t * d + c);
      for (int64_t i = 0; i < n; ++i) {
        state[i] =
            std::exp(-D * std::exp(at("log_rate", c))) * state[i] + D * value_at(B, t * n + i) * value_at(x, t * d + c);
        y += value_at(C, t * n + i) * state[i];
      }
      EXPECT_NEAR(value_at(got, t * d + c), y * silu(value_at(gate, t * d + c)), 1e-12);
    }
  }
}

TEST(SelectiveSsmMixer, StepsStartWhereTheRecipeSays) {
  kit::Bench bench;
  const auto mixer = bench.make<Mixer>("selective_ssm", {.hidden_size = 8});
  for (int64_t i = 0; i < 8; ++i) {
    const double D = std::log1p(std::exp(value_at(bench["part.step.bias"], i)));
    EXPECT_GE(D, 0.001 * (1 - 1e-9));
    EXPECT_LE(D, 0.1 * (1 + 1e-9));
  }
  EXPECT_EQ(mixer->state_bytes({1, 5}, DType::bf16), 2 * 4 * (3 * 16 + 16 * 16));
}

}  // namespace
}  // namespace lithe
