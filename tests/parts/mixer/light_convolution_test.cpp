#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Light {
  Light(int64_t d, const std::string& options)
      : mixer(bench.make<Mixer>("light_convolution", {.hidden_size = d, .max_position_embeddings = 40}, options)) {
    kit::randomise(bench.parameters(), 2);
  }
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

// oracle: conv.light
TEST(LightConvolutionMixer, TapsAreASoftmaxOverTime) {
  Light mixer(2, "{heads: 1, kernel_size: 3, block: false, output: none}");
  const Tensor taps = mixer.bench["part.taps"], x = zeros({4, 2}, DType::f64);
  const double raw[] = {0, std::log(2), std::log(5)}, want[] = {1. / 8, 1. / 4, 5. / 8, 0};
  set_value(x, 0, 1);
  for (const double shift : {0.0, 3.0}) {  // which a number added to all does not change
    for (int64_t r = 0; r < 3; ++r) set_value(taps, r, raw[r] + shift);
    const Tensor y = mixer(x);
    for (int64_t t = 0; t < 4; ++t) {
      EXPECT_NEAR(value_at(y, t * 2), want[t], 1e-15);
      EXPECT_EQ(value_at(y, t * 2 + 1), 0);
    }
  }
}

// oracle: conv.light
TEST(LightConvolutionMixer, ConstantsStayAwayFromTheEdge) {
  Light mixer(4, "{heads: 2, kernel_size: 3, block: false, output: none}");
  const Tensor x = empty({6, 4}, DType::f64);
  for (int64_t i = 0; i < 24; ++i) set_value(x, i, double(i % 4 + 1));
  const Tensor y = mixer(x);
  for (int64_t i = 8; i < 24; ++i) EXPECT_NEAR(value_at(y, i), value_at(x, i), 1e-14);
}

// oracle: conv.light
TEST(LightConvolutionMixer, AHeadForEachChannelIsTheDepthwiseConvolution) {
  Light mixer(4, "{heads: 4, kernel_size: 3, block: false, softmax: false, output: none}");
  kit::Bench bench;
  const auto plain = bench.make<Mixer>("convolution", {.hidden_size = 4}, "{kernel_size: 3, bias: false}");
  for (int64_t r = 0; r < 3; ++r)
    for (int64_t c = 0; c < 4; ++c)
      set_value(bench["part.taps"], r * 4 + c, value_at(mixer.bench["part.taps"], c * 3 + r));
  const Tensor x = kit::normal({6, 4}, DType::f64, 1);
  EXPECT_EQ(kit::close(mixer(x), plain->forward({Var(x), Sequences::single(6), nullptr}).value(), 8), "");
}

// oracle: conv.light
TEST(LightConvolutionMixer, ParametersAreThoseOfTheSpecification) {
  for (const int64_t d : {16, 32, 48})
    EXPECT_EQ(Light(d, "{heads: 16}").bench.parameters().count(), 16 * 7 + 3 * d * d + 3 * d);
  EXPECT_EQ(kit::error_of([] { Light(6, "{heads: 4}"); }),
            "light_convolution: hidden_size 6 must be a multiple of heads 4");
}

// Every token is read with taps that are a softmax of x W: y[t, c] = sum_r w[t, h(c), r] x[t - r, c].
// oracle: conv.light
TEST(LightConvolutionMixer, DynamicTapsAreASoftmaxOfWhatATokenMakes) {
  Light mixer(4, "{heads: 2, kernel_size: 3, dynamic: true, block: false, output: none}");
  EXPECT_EQ(mixer.bench.parameters().count(), 4 * 2 * 3);
  const Tensor x = kit::normal({5, 4}, DType::f64, 1), y = mixer(x),
               w = kit::product(x, mixer.bench["part.taps.weight"]);
  for (int64_t t = 0; t < 5; ++t)
    for (int64_t c = 0; c < 4; ++c) {
      double sum = 0, want = 0;
      for (int64_t r = 0; r < 3; ++r) sum += std::exp(value_at(w, t * 6 + c / 2 * 3 + r));
      for (int64_t r = 0; r < 3 && r <= t; ++r)
        want += std::exp(value_at(w, t * 6 + c / 2 * 3 + r)) / sum * value_at(x, (t - r) * 4 + c);
      EXPECT_NEAR(value_at(y, t * 4 + c), want, 1e-14) << t << "," << c;
    }
}

}  // namespace
}  // namespace lithe
