#include <gtest/gtest.h>

#include <cmath>

#include "tests/parts/field/sparse_kit.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

FieldAttention two_heads(const std::string& field, bool causal = true) { return FieldAttention(field, causal, 2); }

// oracle: attn.local_window
TEST(LocalField, AWindowAsLongAsTheTextIsFullAttention) {
  const Tensor x = kit::normal({7, 8}, DType::f64, 1);
  for (const bool causal : {true, false}) {
    const Tensor full = two_heads("full", causal)(x);
    EXPECT_LE(kit::largest_difference(two_heads("{type: local, window: 7}", causal)(x), full), 1e-12);
    EXPECT_LE(kit::largest_difference(two_heads("{type: local, window: [9, 7]}", causal)(x), full), 1e-12);
    EXPECT_GT(kit::largest_difference(two_heads("{type: local, window: [9, 6]}", causal)(x), full), 1e-6);
  }
}

// oracle: attn.local_window
TEST(LocalField, AWindowOfOneGivesTheTokensOwnValue) {
  const FieldAttention local = two_heads("{type: local, window: 1}");
  const Tensor x = kit::normal({5, 8}, DType::f64, 1);
  const Tensor whole = local(x);
  for (int64_t i = 0; i < 5; ++i)
    EXPECT_LE(kit::largest_difference(local(clone(x.slice(i, i + 1))), clone(whole.slice(i, i + 1))), 1e-12);
}

// Weights by head: head h sees its own number of tokens, and all of them.
// oracle: attn.local_window
TEST(LocalField, EachHeadSeesItsOwnWindow) {
  const FieldAttention local = two_heads("{type: local, window: [2, 4]}");
  const int64_t T = 6;
  const MixerMaps maps = local.mixer->maps({Var(kit::normal({T, 8}, DType::f64, 1)), Sequences::single(T), nullptr});
  for (int64_t head = 0; head < 2; ++head)
    for (int64_t i = 0; i < T; ++i)
      for (int64_t j = 0; j < T; ++j) {
        const bool seen = j <= i && j > i - (head == 0 ? 2 : 4);
        EXPECT_EQ(value_at(maps.weights, (head * T + i) * T + j) > 0, seen) << head << " " << i << " " << j;
      }
}

// Older rows leave the cache, and decoding equals the whole.
// oracle: attn.local_window
TEST(LocalField, TheCacheKeepsWhatIsSeen) {
  for (const std::string window : {"40", "[40, 7]", "100"}) {
    const bool by_row = window != "100";  // longer windows let whole pages go
    const FieldAttention local = two_heads("{type: local, window: " + window + "}");
    const int64_t T = 300;
    const Tensor x = kit::normal({T, 8}, DType::f64, 1), whole = local(x);
    const auto state = local.mixer->make_state({1, T, DType::f64, Device::cpu});
    int64_t most = 0;
    for (int64_t at = 0; at < T;) {
      const int64_t n = at == 0 ? 130 : 1;  // a prefill that is longer than the window, then tokens
      const Tensor rows = clone(x.slice(at, at + n));
      const Tensor y = local.mixer->forward({Var(rows), Sequences({0, n}, {at}), state.get()}).value();
      EXPECT_LE(kit::largest_difference(y, clone(whole.slice(at, at + n))), 1e-12) << at;
      at += n;
      EXPECT_EQ(state->bytes(), local.mixer->state_bytes({at}, DType::f64));
      most = std::max(most, state->bytes());
    }
    EXPECT_LE(most, (by_row ? 39 : 100 + 63) * 2 * 8 * 8);  // keys and values
    EXPECT_FALSE(state->truncates());
    EXPECT_THROW(state->truncate(0, 100), Error);  // what token 100 saw is given back
    if (by_row) {
      EXPECT_THROW(state->truncate(0, 299), Error);
      state->truncate(0, 300);
    } else {
      state->truncate(0, 299);
      EXPECT_EQ(local.mixer->state_bytes({299}, DType::f64), state->bytes());
    }
  }
}

// z at or beyond the text is full attention; the factor is 1 up to z and 0 from z + R on.
// oracle: attn.local_window
TEST(LocalField, AnAdaptiveSpanWeighsByDistance) {
  const Tensor x = kit::normal({7, 8}, DType::f64, 1);
  const auto field = [](double span, double ramp) {
    return cat("{type: local, form: adaptive, window: 9, initial_span: ", span, ", ramp: ", ramp, "}");
  };
  const auto spanned = [&](double span, double ramp, bool causal) {
    auto out = two_heads(field(span, ramp), causal);
    for (int64_t head = 0; head < 2; ++head) set_value(out.bench["part.field.span"], head, span / 9);
    return out;
  };
  for (const bool causal : {true, false}) {
    EXPECT_LE(kit::largest_difference(spanned(7, 2, causal)(x), two_heads("full", causal)(x)), 1e-12);
    // z = 1, R = 2: factors 1, 1, 1/2 and nothing beyond.
    const MixerMaps full = two_heads("full", causal).mixer->maps({Var(x), Sequences::single(7), nullptr}),
                    maps = spanned(1, 2, causal).mixer->maps({Var(x), Sequences::single(7), nullptr});
    for (int64_t n = 0; n < 14; ++n) {
      double sum = 0;
      const auto factor = [&](int64_t j) {
        const double apart = std::abs(double(n % 7 - j));
        return std::clamp((2 + 1 - apart) / 2, 0.0, 1.0);
      };
      for (int64_t j = 0; j < 7; ++j) sum += factor(j) * value_at(full.weights, n * 7 + j);
      for (int64_t j = 0; j < 7; ++j)
        EXPECT_NEAR(value_at(maps.weights, n * 7 + j), factor(j) * value_at(full.weights, n * 7 + j) / sum, 1e-6);
    }
  }
}

// The penalty is a loss of the heads' spans, and moves them in.
// oracle: attn.local_window
TEST(LocalField, AdaptiveSpansArePenalised) {
  auto local = two_heads("{type: local, form: adaptive, window: 9, ramp: 2, initial_span: 4, span_penalty: 0.5}");
  const Tensor span = local.bench["part.field.span"];
  set_value(span, 0, 3.0 / 9), set_value(span, 1, 11.0 / 9);  // of the window, one of them beyond its end
  Tape tape;
  const Pass pass;
  local.mixer->forward({Var(kit::normal({4, 8}, DType::f64, 1)), Sequences::single(4), nullptr, pass});
  const Var loss = pass.losses().at("span_penalty");
  EXPECT_DOUBLE_EQ(value_at(loss.value(), 0), 0.5 * (3 + 9));
  tape.backward(loss);
  const Tensor slopes = local.bench.parameters().find("part.field.span")->master.grad();
  for (int64_t head = 0; head < 2; ++head) EXPECT_DOUBLE_EQ(value_at(slopes, head), 0.5 * 9);
}

TEST(LocalField, AdaptiveSpansDecodeWithACacheOfTheirLength) {
  expect_decodes("{type: local, form: adaptive, window: 5, ramp: 3}");
  expect_decodes("{type: local, form: adaptive, window: 90, ramp: 8.5}");
  FieldAttention local("{type: local, form: adaptive, window: 5, ramp: 3}");
  EXPECT_EQ(local.mixer->state_bytes({1000}, DType::f64), (5 + 3 - 1) * 2 * 8 * 8);
}

// Luong's local-p: a softmax in the window, times a Gaussian around its centre.
// oracle: attn.local_window
TEST(LocalField, APredictedWindowIsAroundItsCentre) {
  FieldCrossing cross("{type: local, form: predictive, radius: 2, predictor_dim: 3}"), full("full");
  for (const Parameter& p : full.bench.parameters().all())
    copy_into(p.master.value(), cross.bench.parameters().find(p.name)->master.value());
  const Tensor x = kit::normal({4, 8}, DType::f64, 1), source = kit::normal({11, 8}, DType::f64, 2);
  const Tensor w = cross.bench["part.field.centre.hidden.weight"], v = cross.bench["part.field.centre.out.weight"],
               y = cross(x, source), q = kit::product(x, cross.bench["part.heads.q.weight"]),
               k = kit::product(source, cross.bench["part.heads.k.weight"]),
               values = kit::product(kit::product(source, cross.bench["part.heads.v.weight"]),
                                     cross.bench["part.output.weight"]);
  for (int64_t i = 0; i < 4; ++i) {
    double z = 0;
    for (int64_t c = 0; c < 3; ++c) {
      double hidden = 0;
      for (int64_t d = 0; d < 8; ++d) hidden += value_at(x, i * 8 + d) * value_at(w, d * 3 + c);
      z += std::tanh(hidden) * value_at(v, c);
    }
    const double p = 10 / (1 + std::exp(-z));
    std::vector<double> weights(11, 0.0);
    double sum = 0;
    for (int64_t j = 0; j < 11; ++j) {
      if (std::abs(double(j) - p) > 2) continue;
      double dot = 0;
      for (int64_t d = 0; d < 8; ++d) dot += value_at(q, i * 8 + d) * value_at(k, j * 8 + d);
      sum += weights[size_t(j)] = std::exp(dot / std::sqrt(8.0));
    }
    for (int64_t c = 0; c < 8; ++c) {
      double want = 0;
      for (int64_t j = 0; j < 11; ++j)
        want +=
            weights[size_t(j)] / sum * std::exp(-(double(j) - p) * (double(j) - p) / 2) * value_at(values, j * 8 + c);
      EXPECT_NEAR(value_at(y, i * 8 + c), want, 1e-12) << i;
    }
  }
}

// The smallest constituent: ((a b) (c (d e))) of places 0-1, 2-4, 3-4.
// oracle: attn.local_window
TEST(LocalField, ATreeShowsTheConstituent) {
  for (const bool causal : {true, false}) {
    const FieldAttention local("{type: local, form: tree, column: constituents}", causal);
    EXPECT_EQ(local.mixer->reads_columns(), std::vector<std::string>{"constituents"});
    Pass pass;
    const int32_t spans[] = {0, 2, 0, 2, 2, 5, 3, 5, 3, 5};
    pass.give("constituents", tensor_of({5, 2}, std::span<const int32_t>(spans)));
    const Tensor x = kit::normal({5, 8}, DType::f64, 1);
    const MixerMaps maps = local.mixer->maps({Var(x), Sequences::single(5), nullptr, pass});
    for (int64_t i = 0; i < 5; ++i)
      for (int64_t j = 0; j < 5; ++j)
        EXPECT_EQ(value_at(maps.weights, i * 5 + j) > 0,
                  j >= spans[2 * i] && j < spans[2 * i + 1] && (!causal || j <= i))
            << i << " " << j;
    EXPECT_THROW(local(x), Error);  // without the column
  }
}

// (S (NP the cat) (VP sat (PP on mats))) of a treebank's columns, "mats" of two tokens between special ones: neighbours
// share 2, 1, 2 and 3 nodes.
// oracle: attn.local_window
TEST(LocalField, ATreeComesFromATreebank) {
  const FieldAttention local("{type: local, form: tree}", false);
  Pass pass;
  const int32_t words[] = {-1, 0, 1, 2, 3, 4, 4, -1}, common[] = {0, 2, 1, 2, 3, 0, 0, 0};
  pass.give("word", tensor_of({8}, std::span<const int32_t>(words)));
  pass.give("common", tensor_of({8}, std::span<const int32_t>(common)));
  const MixerMaps maps =
      local.mixer->maps({Var(kit::normal({8, 8}, DType::f64, 1)), Sequences::single(8), nullptr, pass});
  const int64_t spans[] = {0, 8, 1, 3, 1, 3, 3, 7, 4, 7, 4, 7, 4, 7, 0, 8};
  for (int64_t i = 0; i < 8; ++i)
    for (int64_t j = 0; j < 8; ++j)
      EXPECT_EQ(value_at(maps.weights, i * 8 + j) > 0, j >= spans[2 * i] && j < spans[2 * i + 1]) << i << " " << j;
}

TEST(LocalField, RefusesFormsWhereTheyHaveNone) {
  EXPECT_NE(kit::coded_error_of([] { two_heads("{type: local, form: predictive}"); }).find("has no causal form"),
            std::string::npos);
  EXPECT_NE(kit::coded_error_of([] { FieldCrossing("{type: local, form: adaptive}"); }).find("has no cross form"),
            std::string::npos);
  EXPECT_NE(kit::coded_error_of([] { two_heads("{type: local, form: tree, window: 3}"); }).find("leave it out"),
            std::string::npos);
}

TEST(LocalField, RefusesWindowsThatFitNoHeads) {
  EXPECT_EQ(kit::coded_error_of([] { two_heads("{type: local, window: [1, 2, 3]}"); }),
            "2 local: window has 3 numbers; give one, or one for each of the 2 query heads");
  EXPECT_EQ(kit::coded_error_of([] { two_heads("{type: local, window: 0}"); }),
            "2 local: window must be at least 1, got 0");
}

}  // namespace
}  // namespace lithe
