#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Convolved {
  Convolved(int64_t d, const std::string& options, bool causal = true)
      : mixer(bench.make<Mixer>("convolution", {.hidden_size = d, .max_position_embeddings = 40, .causal = causal},
                                options)) {
    kit::randomise(bench.parameters(), 2);
  }
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

// oracle: conv.full
TEST(ConvolutionMixer, TheResponseToAnImpulseIsItsTaps) {
  for (const bool causal : {true, false}) {
    Convolved mixer(3, "{kind: full, kernel_size: 3, bias: false}", causal);
    const Tensor w = mixer.bench["part.weight"];  // [3 d, d]
    for (int64_t c = 0; c < 3; ++c) {
      const Tensor x = zeros({8, 3}, DType::f64);
      set_value(x, 3 * 3 + c, 1);
      const Tensor y = mixer(x);
      for (int64_t t = 0; t < 8; ++t)
        for (int64_t e = 0; e < 3; ++e) {
          const int64_t r = t - 3 + (causal ? 0 : 1);
          EXPECT_EQ(value_at(y, t * 3 + e), r >= 0 && r < 3 ? value_at(w, (r * 3 + c) * 3 + e) : 0);
        }
    }
  }
}

// oracle: conv.full
TEST(ConvolutionMixer, OneTapIsALinearMap) {
  Convolved mixer(4, "{kind: full, kernel_size: 1, bias: false}");
  const Tensor x = kit::normal({5, 4}, DType::f64, 1);
  EXPECT_EQ(kit::close(mixer(x), kit::product(x, mixer.bench["part.weight"]), 8), "");
}

// oracle: conv.depthwise
TEST(ConvolutionMixer, ChannelsAreIndependentUnlessTheyAreSummed) {
  const Tensor x = kit::normal({6, 4}, DType::f64, 1), moved = clone(x), turned = clone(x);
  for (int64_t t = 0; t < 6; ++t) {
    set_value(moved, t * 4 + 2, value_at(x, t * 4 + 2) + 1);
    for (int64_t c = 0; c < 4; ++c) set_value(turned, t * 4 + c, value_at(x, t * 4 + (c + 1) % 4));
  }
  const Convolved depthwise(4, "{kernel_size: 3}"), tied(4, "{kernel_size: 3, kind: tied_text}");
  const Tensor a = depthwise(x), b = depthwise(moved);
  for (int64_t i = 0; i < 24; ++i) EXPECT_EQ(value_at(a, i) == value_at(b, i), i % 4 != 2);
  EXPECT_EQ(kit::close(tied(turned), tied(x), 16), "");  // sums of channels alone
  EXPECT_GT(kit::largest_difference(tied(moved), tied(x)), 1e-3);
}

// oracle: conv.depthwise, conv.full
/// Taps beyond 512 meet whole sequences by Fourier transforms, rows that continue a state directly.
TEST(ConvolutionMixer, LongTapsAreThoseOfShortOnes) {
  Convolved far(2, "{kernel_size: 700}"), near(2, "{kernel_size: 7}"), centred(2, "{kernel_size: 701}", false);
  const Tensor x = kit::normal({900, 2}, DType::f64, 1), whole = far(x);
  const auto state = far.mixer->make_state({.sequences = 1, .capacity = 900, .dtype = DType::f64});
  const Tensor continued = far.mixer->forward({Var(x), Sequences::single(900), state.get()}).value();
  EXPECT_EQ(kit::close(whole, continued, 700), "");
  const Tensor w = far.bench["part.taps"];
  for (int64_t i = 7 * 2; i < w.numel(); ++i) set_value(w, i, 0);
  copy_into(near.bench["part.taps"], w.slice(0, 7));
  copy_into(near.bench["part.bias"], far.bench["part.bias"]);
  EXPECT_EQ(kit::close(far(x), near(x), 700), "");
  const Tensor seen = centred(x);
  for (int64_t t = 0; t < 900; t += 89) {
    double want = value_at(centred.bench["part.bias"], 0);
    for (int64_t r = 0; r < 701; ++r)
      if (const int64_t at = t + 350 - r; at >= 0 && at < 900)
        want += value_at(centred.bench["part.taps"], 2 * r) * value_at(x, 2 * at);
    EXPECT_NEAR(value_at(seen, 2 * t), want, 1e-10);
  }
}

TEST(ConvolutionMixer, ParametersAndStatesAreThoseOfTheSpecification) {
  for (const int64_t d : {4, 6, 9}) {
    EXPECT_EQ(Convolved(d, "{}").bench.parameters().count(), 7 * d + d);
    EXPECT_EQ(Convolved(d, "{kind: tied_text, bias: false}").bench.parameters().count(), 7 * d);
    EXPECT_EQ(Convolved(d, "{kind: full}").bench.parameters().count(), 7 * d * d + d);
    EXPECT_EQ(Convolved(d, "{}").mixer->state_bytes({3}, DType::f32), 6 * d * 4);
  }
  EXPECT_EQ(kit::error_of([] { Convolved(4, "{kernel_size: 4}", false); }),
            "convolution: kernel_size 4 has no centre; give an odd one to a model that sees both ways");
}

}  // namespace
}  // namespace lithe
