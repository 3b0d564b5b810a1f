#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/attention.h"
#include "lithe/ops/cumulative_softmax.h"
#include "lithe/ops/linear.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct NonApprox {
  NonApprox(int64_t d, const std::string& options, const Position* position = nullptr)
      : mixer(bench.make<Mixer>("nonapprox",
                                {.hidden_size = d, .max_position_embeddings = 9, .causal = true, .position = position},
                                options)) {
    kit::randomise(bench.parameters(), 2);
  }
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  MixerMaps maps(const Tensor& x) const { return mixer->maps({Var(x), Sequences::single(x.rows()), nullptr}); }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

const double kQuery[] = {.5, -1, 1, 0}, kKey[] = {1, 0, -1, 2}, kValue[] = {1, 2, 3, -1};

Tensor weights_of(const Tensor& q, const Tensor& k, int64_t heads) {
  return head_dot(activate(kernels::Activation::silu, q), k, heads, 1 / std::sqrt(double(q.cols() / heads))).value();
}

// oracle: decon.nonapprox
TEST(NonApproxMixer, GivesTheWorkedDataSet) {
  const Tensor s = weights_of(tensor_of({2, 2}, kQuery), tensor_of({2, 2}, kKey), 1);
  EXPECT_EQ(kit::close_to_printed(s, {.220073, -.516936}, 6), "");
  const Tensor out = cumulative_softmax(s, tensor_of({2, 2}, kValue), Sequences::single(2), true).value();
  EXPECT_EQ(kit::close_to_printed(out, {1, 2, 1.647317, 1.029024}, 6), "");
}

// oracle: decon.nonapprox
TEST(NonApproxMixer, IsTheWeightedMeanOfItsValues) {
  NonApprox mixer(4, "{num_attention_heads: 2, attention_bias: true}");
  const Tensor x = kit::normal({5, 4}, DType::f64, 1);
  const auto map = [&](const std::string& name) {
    return linear(x, Var(mixer.bench["part.heads." + name + ".weight"]),
                  Var(mixer.bench["part.heads." + name + ".bias"]))
        .value();
  };
  const Var mean = cumulative_softmax(weights_of(map("q"), map("k"), 2), map("v"), Sequences::single(5), true);
  EXPECT_EQ(kit::close(mixer(x), linear(mean, Var(mixer.bench["part.output.weight"])).value(), 16), "");
}

// oracle: decon.nonapprox
TEST(NonApproxMixer, RotaryPositionsWouldChangeNothing) {
  const Tensor q = kit::normal({6, 8}, DType::f64, 1), k = kit::normal({6, 8}, DType::f64, 2);
  const Sequences sequences = Sequences::single(6);
  const auto turned = [&](const Tensor& x) { return rotate(x, sequences.positions(), 4, 10000, false).value(); };
  EXPECT_EQ(kit::close(head_dot(turned(q), turned(k), 2).value(), head_dot(q, k, 2).value(), 32), "");
  kit::Bench bench;
  const auto rotary = bench.make<Position>("rotary", {.hidden_size = 8, .max_position_embeddings = 9});
  const NonApprox with(8, "{num_attention_heads: 2}", rotary.get()), without(8, "{num_attention_heads: 2}");
  EXPECT_EQ(kit::bit_difference(with(q), without(q)), "");
}

// oracle: decon.nonapprox
TEST(NonApproxMixer, EarlierTokensMayBePermuted) {
  const NonApprox mixer(6, "{num_attention_heads: 3}");
  const Tensor x = kit::normal({6, 6}, DType::f64, 1), y = mixer(x);
  const Tensor z = mixer(kit::rows_of(x, {2, 0, 3, 1, 4, 5}));
  EXPECT_EQ(kit::close(clone(z.slice(4, 6)), clone(y.slice(4, 6)), 16), "");
  EXPECT_GT(kit::largest_difference(clone(z.slice(1, 2)), clone(y.slice(1, 2))), 1e-3);
}

// oracle: decon.nonapprox
TEST(NonApproxMixer, AllQueriesShareTheirWeights) {
  const NonApprox mixer(6, "{num_attention_heads: 3}");
  const MixerMaps maps = mixer.maps(kit::normal({6, 6}, DType::f64, 1));
  ASSERT_EQ(maps.heads, 3);
  const auto weight = [&](int64_t head, int64_t i, int64_t j) {
    return value_at(maps.weights, (head * 6 + i) * 6 + j);
  };
  for (int64_t head = 0; head < 3; ++head)
    for (int64_t i = 0; i < 6; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < 6; ++j) sum += weight(head, i, j);
      EXPECT_NEAR(sum, 1, 6 * 0x1p-23);
      for (int64_t j = 0; j <= i; ++j)  // a new token scales all older weights by one factor
        EXPECT_NEAR(weight(head, i, j) / weight(head, i, 0), weight(head, 5, j) / weight(head, 5, 0),
                    8 * 0x1p-24 * weight(head, 5, j) / weight(head, 5, 0));
      for (int64_t j = i + 1; j < 6; ++j) {
        EXPECT_EQ(weight(head, i, j), 0);
        EXPECT_EQ(value_at(maps.logits, (head * 6 + i) * 6 + j), -INFINITY);
      }
    }
}

// oracle: decon.nonapprox
TEST(NonApproxMixer, TheDenominatorGrowsWithEveryToken) {
  const Tensor s = kit::normal({9, 1}, DType::f64, 3, 2), v = kit::normal({9, 2}, DType::f64, 4);
  const std::vector<Tensor> state{zeros({1, 4}, DType::f64)};
  double before = -INFINITY;
  for (int64_t t = 0; t < 9; ++t) {
    cumulative_softmax_step(s.slice(t, t + 1), v.slice(t, t + 1), Sequences({0, 1}, {t}), state);
    const double now = value_at(state[0], 2) + std::log(value_at(state[0], 3));  // log of the unnormalised sum
    EXPECT_GT(now, before);
    before = now;
  }
}

// oracle: decon.nonapprox
TEST(NonApproxMixer, EqualWeightsGiveTheMeanOfTheValues) {
  const Tensor v = kit::normal({5, 4}, DType::f64, 5), s = empty({5, 2}, DType::f64);
  for (int64_t i = 0; i < 10; ++i) set_value(s, i, 0.7);
  const Tensor out = cumulative_softmax(s, v, Sequences::single(5), true).value();
  for (int64_t i = 0; i < 5; ++i)
    for (int64_t c = 0; c < 4; ++c) {
      double mean = 0;
      for (int64_t j = 0; j <= i; ++j) mean += value_at(v, j * 4 + c) / double(i + 1);
      EXPECT_NEAR(value_at(out, i * 4 + c), mean, 1e-14);
    }
}

// oracle: decon.nonapprox
TEST(NonApproxMixer, AShiftOfTheValuesShiftsTheRows) {
  const Tensor s = kit::normal({6, 2}, DType::f64, 6), v = kit::normal({6, 4}, DType::f64, 7), moved = clone(v);
  for (int64_t i = 0; i < 24; ++i) set_value(moved, i, value_at(v, i) + double(i % 4));
  const Tensor a = cumulative_softmax(s, v, Sequences::single(6), true).value(),
               b = cumulative_softmax(s, moved, Sequences::single(6), true).value();
  for (int64_t i = 0; i < 24; ++i) EXPECT_NEAR(value_at(b, i), value_at(a, i) + double(i % 4), 1e-14);
}

// oracle: decon.nonapprox
TEST(NonApproxMixer, LargeLogitsAreSafe) {
  for (const DType type : {DType::f64, DType::f32}) {
    const double logits[] = {-1e3, 1e3, -1e3, 999, 1e3};
    const Tensor s = convert(tensor_of({5, 1}, logits), type),
                 v = convert(tensor_of({5, 1}, std::vector<double>{1, 2, 3, 4, 5}), type);
    const double e = std::exp(-1.0), want[] = {1, 2, 2, (2 + 4 * e) / (1 + e), (2 + 4 * e + 5) / (2 + e)};
    const Tensor out = cumulative_softmax(s, v, Sequences::single(5), true).value();
    EXPECT_EQ(kit::close(out, tensor_of({5, 1}, want), 8), "") << int(type);
    Var logit = Var::leaf(s), value = Var::leaf(v);
    Tape tape;
    tape.backward(cumulative_softmax(logit, value, Sequences::single(5), true), out);
    for (const Var& x : {logit, value})
      for (double g : kit::values(x.grad())) EXPECT_TRUE(std::isfinite(g));
  }
}

// oracle: decon.nonapprox, acct.cache
TEST(NonApproxMixer, StateHasTwoScalarsAHeadBesideARow) {
  // (B, d, h) = (1, 896, 14): 924 scalars, published as 1848 bytes of fp16; sums are kept in f32.
  const NonApprox mixer(896, "{num_attention_heads: 14}");
  const auto state = mixer.mixer->make_state({1, 2048, DType::bf16, Device::cpu});
  EXPECT_EQ(state->bytes(), 1848 / 2 * 4);
  EXPECT_EQ(mixer.mixer->state_bytes({2048}, DType::bf16), 1848 / 2 * 4);
  EXPECT_EQ(mixer.mixer->state_bytes({1, 7, 0}, DType::f32), 3 * 924 * 4);
}

TEST(NonApproxMixer, StatesForgetEverythingOrNothing) {
  const NonApprox mixer(6, "{num_attention_heads: 3}");
  const Tensor x = kit::normal({4, 6}, DType::f64, 8);
  const auto state = mixer.mixer->make_state({1, 9, DType::f64, Device::cpu});
  const auto feed = [&](int64_t past) {
    return mixer.mixer->forward({Var(x), Sequences({0, 4}, {past}), state.get()}).value();
  };
  const Tensor first = feed(0);
  state->truncate(0, 4);
  EXPECT_THROW(feed(3), Error);
  try {
    state->truncate(0, 2);
    FAIL() << "forgot two of four tokens";
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "nonapprox: the state sums over all 4 tokens and cannot go back to 2; truncate to 0 and feed the first 2 "
        "again");
  }
  state->truncate(0, 0);
  EXPECT_EQ(kit::bit_difference(feed(0), first), "");
}

TEST(NonApproxMixer, ParametersAreThoseOfAttention) {
  for (const int64_t d : {6, 12, 24}) {
    kit::Bench a, b;
    a.make<Mixer>("attention", {.hidden_size = d}, "{num_attention_heads: 3, attention_bias: true}");
    b.make<Mixer>("nonapprox", {.hidden_size = d}, "{num_attention_heads: 3, attention_bias: true}");
    EXPECT_EQ(b.parameters().count(), 4 * d * d + 3 * d);
    for (const Parameter& p : a.parameters().all()) EXPECT_NE(b.parameters().find(p.name), nullptr) << p.name;
  }
}

}  // namespace
}  // namespace lithe
