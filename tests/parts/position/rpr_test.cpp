#include <gtest/gtest.h>

#include <cmath>

#include "tests/parts/position/position_kit.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

// The formula written out over all pairs, with their T x T x d vectors: queries, keys and values from the weights.
Tensor written_out(PositionedAttention& a, const Tensor& x, int64_t clip) {
  const int64_t T = x.rows(), d = 8, heads = 2, size = 4;
  const auto rows = [&](const char* name) {
    const Tensor w = a.bench[cat("mixer.heads.", name, ".weight")], y = zeros({T, d}, DType::f64);
    for (int64_t i = 0; i < T; ++i)
      for (int64_t c = 0; c < d; ++c) {
        double sum = 0;
        for (int64_t k = 0; k < d; ++k) sum += value_at(x, i * d + k) * value_at(w, k * d + c);
        set_value(y, i * d + c, sum);
      }
    return y;
  };
  const Tensor q = rows("q"), k = rows("k"), v = rows("v"), out = zeros({T, d}, DType::f64);
  const auto vector = [&](const char* name, int64_t t, int64_t c) {
    const std::string full = cat("position.", name);
    Parameter* table = a.bench.parameters().find(full);
    return table ? value_at(table->master.value(), (std::clamp<int64_t>(t, -clip, clip) + clip) * size + c) : 0.0;
  };
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < T; ++i) {
      std::vector<double> p(size_t(T), 0.0);
      double sum = 0;
      for (int64_t j = 0; j < (a.causal ? i + 1 : T); ++j) {
        double logit = 0;
        for (int64_t c = 0; c < size; ++c)
          logit += (value_at(q, i * d + h * size + c) + vector("q", i - j, c)) *
                   (value_at(k, j * d + h * size + c) + vector("k", i - j, c)) / 2;
        sum += p[size_t(j)] = std::exp(logit);
      }
      for (int64_t j = 0; j < T; ++j)
        for (int64_t c = 0; c < size; ++c) {
          const int64_t at = i * d + h * size + c;
          set_value(
              out, at,
              value_at(out, at) + p[size_t(j)] / sum * (value_at(v, j * d + h * size + c) + vector("v", i - j, c)));
        }
    }
  return out;
}

// oracle: pos.rpr, pos.rpr_shaw, pos.rpr_logit
TEST(Rpr, EqualsTheFormulaOverAllPairs) {
  const Tensor x = kit::normal({9, 8}, DType::f64, 1);
  for (const bool causal : {true, false})
    for (const int64_t clip : {0, 2, 20})
      for (const char* use : {"", ", use_q: true", ", use_v: false", ", use_k: false", ", use_q: true, use_k: false"}) {
        PositionedAttention a("rpr", cat("{clip: ", clip, use, "}"), causal, 2, "output: none");
        EXPECT_LE(kit::largest_difference(a(x), written_out(a, x, clip)), 1e-12) << clip << use;
      }
}

// oracle: pos.rpr_shaw
TEST(Rpr, ZerosAreAttentionWithoutPositions) {
  PositionedAttention a("rpr", "{clip: 3, use_q: true}", true, 2, "output: none");
  for (const char* name : {"position.q", "position.k", "position.v"})
    for (int64_t i = 0; i < a.bench[name].numel(); ++i) set_value(a.bench[name], i, 0);
  kit::Bench plain;
  const auto mixer = plain.make<Mixer>("attention", {.hidden_size = 8, .max_position_embeddings = 16},
                                       "{num_attention_heads: 2, output: none}", "mixer");
  kit::copy_values(a.bench.parameters(), plain.parameters());
  const Tensor x = kit::normal({9, 8}, DType::f64, 1);
  EXPECT_LE(kit::largest_difference(a(x), mixer->forward({Var(x), Sequences::single(9), nullptr}).value()), 1e-12);
}

// With one vector for all distances the logits of a row move alike, and every value by that vector.
// oracle: pos.rpr_shaw
TEST(Rpr, OneVectorForAllDistancesMovesTheValuesAlone) {
  PositionedAttention a("rpr", "{clip: 0}", false, 2, "output: none");
  const Tensor x = kit::normal({7, 8}, DType::f64, 1), with = a(x), v = a.bench["position.v"], moved = clone(v);
  for (int64_t i = 0; i < v.numel(); ++i) set_value(v, i, 0);
  const Tensor without = a(x);
  for (int64_t i = 0; i < x.numel(); ++i)
    EXPECT_NEAR(value_at(with, i), value_at(without, i) + value_at(moved, i % 4), 1e-12);
}

TEST(Rpr, CountsItsNumbersAndRefusesOtherHeads) {
  kit::Bench bench;
  const auto rpr = bench.make<Position>(
      "rpr", {.hidden_size = 8, .max_position_embeddings = 16, .num_attention_heads = 2}, "{clip: 5}");
  EXPECT_EQ(bench.parameters().count(), 2 * 11 * 4);
  const auto refusal = [&](const Position::HeadSizes& heads) {
    return kit::coded_error_of([&] { rpr->check_heads(heads); });
  };
  EXPECT_EQ(refusal({2, 4, 4}), "no error");
  EXPECT_EQ(refusal({2, 8, 8}), "2 rpr: vectors have 4 channels, heads 8; give position.head_dim: 8");
  EXPECT_EQ(refusal({2, 4, 8}), "2 rpr: vectors have 4 channels, heads' values 8; give position.use_v: false");
}

}  // namespace
}  // namespace lithe
