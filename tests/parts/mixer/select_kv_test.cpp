#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Selecting {
  explicit Selecting(const std::string& options, const std::string& type = "select_kv")
      : mixer(bench.make<Mixer>(type, {.hidden_size = 8, .causal = false}, options)) {
    kit::randomise(bench.parameters(), 5);
  }
  Tensor operator()(const Tensor& x) const {
    return mixer->forward({Var(x), Sequences::single(x.rows()), nullptr}).value();
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

// oracle: lowdim.select_kv
TEST(SelectKv, AllKeysAreAttention) {
  const Tensor x = kit::normal({9, 8}, DType::f64, 1);
  EXPECT_LE(kit::largest_difference(Selecting("{num_attention_heads: 2, keys: 1}")(x),
                                    Selecting("{num_attention_heads: 2}", "attention")(x)),
            1e-12);
}

// oracle: lowdim.select_kv
TEST(SelectKv, TheOrderOfTokensDoesNotMatterWhenAllQueriesAreAsked) {
  const Selecting select("{num_attention_heads: 2, keys: 0.4, sampled_queries: 99}");
  const Tensor x = kit::normal({8, 8}, DType::f64, 1);
  const std::vector<int64_t> order{3, 7, 0, 5, 1, 6, 2, 4};
  EXPECT_LE(kit::largest_difference(select(kit::rows_of(x, order)), kit::rows_of(select(x), order)), 1e-12);
}

// With even weights every row is the mean value of the chosen keys: those of largest mean product with all queries.
// oracle: lowdim.select_kv
TEST(SelectKv, TheKeysOfLargestMeanLogitAreKept) {
  Selecting select("{num_attention_heads: 2, keys: 0.25, sampled_queries: 99, output: none, head_dim: 4}");
  const Tensor x = kit::normal({9, 8}, DType::f64, 1), y = select(x);
  const Tensor q = kit::product(x, select.bench["part.heads.q.weight"]),
               k = kit::product(x, select.bench["part.heads.k.weight"]),
               v = kit::product(x, select.bench["part.heads.v.weight"]);
  std::vector<std::pair<double, int64_t>> scores;
  for (int64_t j = 0; j < 9; ++j) {
    double sum = 0;
    for (int64_t i = 0; i < 9; ++i)
      for (int64_t c = 0; c < 8; ++c) sum -= value_at(q, i * 8 + c) * value_at(k, j * 8 + c);
    scores.emplace_back(sum, j);
  }
  std::sort(scores.begin(), scores.end());
  for (int64_t i = 0; i < 9; ++i)
    for (const int64_t head : {0, 1}) {
      double total = 0;
      std::vector<double> want(4, 0.0);
      for (int64_t n = 0; n < 3; ++n) {  // a quarter of 9, rounded up
        const int64_t j = scores[size_t(n)].second;
        double dot = 0;
        for (int64_t c = 4 * head; c < 4 * head + 4; ++c) dot += value_at(q, i * 8 + c) * value_at(k, j * 8 + c);
        const double weight = std::exp(dot / 2);
        total += weight;
        for (int64_t c = 0; c < 4; ++c) want[size_t(c)] += weight * value_at(v, j * 8 + 4 * head + c);
      }
      for (int64_t c = 0; c < 4; ++c) EXPECT_NEAR(value_at(y, i * 8 + 4 * head + c), want[size_t(c)] / total, 1e-11);
    }
}

TEST(SelectKv, RefusesToBeCausalOrCross) {
  kit::Bench bench;
  const auto refusal = [&](const Mixer::Args& args) {
    return kit::coded_error_of([&] { bench.make<Mixer>("select_kv", args, "{num_attention_heads: 2}"); });
  };
  EXPECT_EQ(refusal({.hidden_size = 8}).substr(0, 2), "2 ");
}

// Of another text: the source's rows choose, so that the state has the chosen keys alone.
// oracle: lowdim.select_kv
TEST(SelectKv, ReadsAnotherText) {
  const auto crossing = [](const std::string& type, const std::string& options, kit::Bench& bench) {
    auto out = bench.make<Mixer>(type, {.hidden_size = 8, .causal = false, .cross = true}, options);
    kit::randomise(bench.parameters(), 5);
    return out;
  };
  kit::Bench one, other, third;
  const auto all = crossing("select_kv", "{num_attention_heads: 2, keys: 1}", one),
             plain = crossing("attention", "{num_attention_heads: 2}", other),
             some = crossing("select_kv", "{num_attention_heads: 2, keys: 0.4, sampled_queries: 99}", third);
  const Tensor x = kit::normal({3, 8}, DType::f64, 1), source = kit::normal({10, 8}, DType::f64, 2);
  const Rows rows{Var(source), Sequences::single(10)};
  const Sequences three = Sequences::single(3);
  const auto read = [&](const Mixer& mixer) {
    return mixer.forward({.x = Var(x), .sequences = three, .source = &rows}).value();
  };
  EXPECT_LE(kit::largest_difference(read(*all), read(*plain)), 1e-12);
  const auto state = some->make_state({1, 20, DType::f64, Device::cpu});
  some->read_source(*state, rows);
  EXPECT_EQ(state->bytes(), 4 * 2 * 8 * 8);
  EXPECT_EQ(some->state_bytes({10}, DType::f64), state->bytes());
  EXPECT_LE(kit::largest_difference(some->forward({.x = Var(x), .sequences = three, .state = state.get()}).value(),
                                    read(*some)),
            1e-12);
}

}  // namespace
}  // namespace lithe
