#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/linear_recurrence.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

Tensor ones(int64_t rows, double x = 1) {
  const Tensor out = zeros({rows, 1}, DType::f64);
  for (int64_t i = 0; i < rows; ++i) set_value(out, i, x);
  return out;
}

// oracle: linattn.delta
TEST(DeltaRuleMixer, OrthonormalKeysReturnTheirValues) {
  // Writes three values, then reads each.
  const Tensor e = zeros({6, 3}, DType::f64), v = kit::normal({6, 2}, DType::f64, 1);
  for (int64_t t = 0; t < 3; ++t) set_value(e, t * 3 + t, 1), set_value(e, (t + 3) * 3 + t, 1);
  const Tensor write = ones(6);
  for (int64_t t = 3; t < 6; ++t) set_value(write, t, 0);
  const Tensor out = linear_recurrence(e, e, v, {}, Var(write), Sequences::single(6), {.delta = true}).value();
  for (int64_t t = 0; t < 3; ++t)
    for (int64_t m = 0; m < 2; ++m) EXPECT_EQ(value_at(out, (t + 3) * 2 + m), value_at(v, t * 2 + m));
}

// oracle: linattn.delta
TEST(DeltaRuleMixer, ASecondValueTakesThePlaceOfTheFirst) {
  const Tensor k = kit::tensor_f64({2, 2}, {.6, .8, .6, .8}), v = kit::tensor_f64({2, 1}, {3, 5});
  const auto last = [&](bool delta, bool normalise) {
    return value_at(
        linear_recurrence(k, k, v, {}, Var(ones(2)), Sequences::single(2), {.normalise = normalise, .delta = delta})
            .value(),
        1);
  };
  EXPECT_NEAR(last(true, false), 5, 1e-15);
  EXPECT_NEAR(last(false, false), 8, 1e-14);  // sums keep both,
  EXPECT_NEAR(last(false, true), 4, 1e-15);   // their ratio is the mean
}

// oracle: linattn.delta
TEST(DeltaRuleMixer, WithoutWeightTheStateStays) {
  const Tensor q = kit::normal({4, 3}, DType::f64, 1), v = kit::normal({4, 2}, DType::f64, 2);
  const std::vector<Tensor> state{kit::normal({1, 6}, DType::f64, 3)};
  const Tensor before = clone(state[0]);
  linear_recurrence(q, q, v, {}, Var(ones(4, 0)), Sequences::single(4), {.delta = true}, state);
  EXPECT_EQ(kit::bit_difference(state[0], before), "");
}

// oracle: linattn.delta
TEST(DeltaRuleMixer, QueriesAndKeysAreNormed) {
  for (const std::string norm : {"l2", "softmax"}) {
    kit::Bench bench;
    const auto mixer = bench.make<Mixer>("delta_rule", {.hidden_size = 6},
                                         cat("{num_attention_heads: 2, output_norm: false, key_norm: ", norm, "}"));
    kit::randomise(bench.parameters(), 2);
    const Tensor x = kit::normal({5, 6}, DType::f64, 1);
    const auto run = [&] { return mixer->forward({Var(x), Sequences::single(5), nullptr}).value(); };
    const Tensor before = clone(run()), w = bench["part.heads.k.weight"];
    for (int64_t i = 0; i < w.numel(); ++i) set_value(w, i, 3 * value_at(w, i));
    const double far = kit::largest_difference(run(), before);
    EXPECT_EQ(far < 1e-9, norm == "l2") << far;  // the norm's eps is 1e-12
  }
}

TEST(DeltaRuleMixer, ParametersAreThoseOfAttentionAndItsWeights) {
  for (const int64_t d : {6, 12, 24}) {
    kit::Bench bench;
    bench.make<Mixer>("delta_rule", {.hidden_size = d}, "{num_attention_heads: 3, output_norm: false}");
    EXPECT_EQ(bench.parameters().count(), 4 * d * d + 3 * (d + 1));
  }
}

}  // namespace
}  // namespace lithe
