#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Average {
  Average(int64_t d, const std::string& options)
      : mixer(bench.make<Mixer>("moving_average", {.hidden_size = d, .max_position_embeddings = 40}, options)) {}
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

// oracle: mix.moving_avg
TEST(MovingAverageMixer, IsItsDefinition) {
  const int64_t T = 7, d = 4;
  const Tensor x = kit::normal({T, d}, DType::f64, 1);
  for (const std::string kind : {"mean", "ema", "window"})
    for (const bool corrected : {false, true}) {
      const Average mixer(d, cat("{window: 3, rates: 2, decay_init: 0.8, kind: ", kind,
                                 ", bias_correction: ", corrected ? "true" : "false", "}"));
      const Tensor y = mixer(x);
      for (int64_t c = 0; c < d; ++c)
        for (int64_t i = 0; i < T; ++i) {
          const double a = c < 2 ? 0.8 : 1 - 0.2 / 16;
          double sum = 0, weights = 0;
          for (int64_t j = kind == "window" ? std::max<int64_t>(0, i - 2) : 0; j <= i; ++j) {
            const double w = kind == "ema" ? std::pow(a, double(i - j)) * (1 - a) : 1;
            sum += w * value_at(x, j * d + c), weights += w;
          }
          if (kind == "ema" && !corrected) weights = 1;
          EXPECT_NEAR(value_at(y, i * d + c), sum / weights, 1e-13) << kind;
        }
    }
}

// oracle: mix.moving_avg
TEST(MovingAverageMixer, TheMeanIsAttentionWithEqualLogits) {
  kit::Bench bench;
  const auto attention = bench.make<Mixer>("attention", {.hidden_size = 4}, "{num_attention_heads: 2}");
  Average mixer(4, "{kind: mean, projections: true, output: dense}");
  kit::randomise(bench.parameters(), 2);
  fill_zero(bench["part.heads.q.weight"]);
  copy_into(mixer.bench["part.values.weight"], bench["part.heads.v.weight"]);
  copy_into(mixer.bench["part.output.weight"], bench["part.output.weight"]);
  const Tensor x = kit::normal({6, 4}, DType::f64, 1);
  EXPECT_EQ(kit::close(mixer(x), attention->forward({Var(x), Sequences::single(6), nullptr}).value(), 32), "");
}

// oracle: mix.moving_avg
TEST(MovingAverageMixer, TheDecayingOneIsALinearChain) {
  kit::Bench bench;
  const auto chain = bench.make<Mixer>("linear_rnn", {.hidden_size = 3}, "{decay_init: 0.8, per_channel: false}");
  const Tensor x = kit::normal({6, 3}, DType::f64, 1);
  EXPECT_EQ(kit::close(Average(3, "{decay_init: 0.8}")(x),
                       chain->forward({Var(x), Sequences::single(6), nullptr}).value(), 32),
            "");
}

// oracle: mix.moving_avg
TEST(MovingAverageMixer, ConstantsStay) {
  const Tensor x = empty({6, 2}, DType::f64);
  for (int64_t i = 0; i < 12; ++i) set_value(x, i, i % 2 ? 3 : -1);
  for (const std::string options : {"{kind: mean}", "{bias_correction: true}", "{kind: window, window: 4}"})
    EXPECT_EQ(kit::close(Average(2, options)(x), x, 8), "") << options;
}

// oracle: mix.moving_avg
TEST(MovingAverageMixer, ParametersAndStatesAreThoseOfTheSpecification) {
  EXPECT_EQ(Average(6, "{kind: mean}").bench.parameters().count(), 0);
  EXPECT_EQ(Average(6, "{}").bench.parameters().count(), 1);
  EXPECT_EQ(Average(6, "{}").mixer->state_bytes({9}, DType::f32), 6 * 4);
  EXPECT_EQ(Average(6, "{kind: mean}").mixer->state_bytes({9}, DType::f32), 7 * 4);
  EXPECT_EQ(Average(6, "{kind: window, window: 5}").mixer->state_bytes({9}, DType::f32), 4 * 6 * 4);
  EXPECT_EQ(kit::error_of([] { Average(6, "{rates: 4}"); }),
            "moving_average: hidden_size 6 must be a multiple of rates 4");
}

}  // namespace
}  // namespace lithe
