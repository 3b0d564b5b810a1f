#include "tests/parts/field/sparse_kit.h"

namespace lithe {
namespace {

// oracle: lowdim.product_keys
TEST(TopKeysField, AllKeysAreFullAttention) {
  for (const bool causal : {true, false}) expect_same_field("{type: top_keys, keys: 100}", "full", causal);
}

// oracle: lowdim.product_keys
TEST(TopKeysField, TheySeeTheLargestProducts) {
  for (const bool causal : {true, false}) {
    FieldAttention some("{type: top_keys, keys: 3}", causal), full("full", causal);
    kit::copy_values(full.bench.parameters(), some.bench.parameters());
    const Tensor x = kit::normal({12, 8}, DType::f64, 1);
    const auto maps = [&](const FieldAttention& of) {
      return of.mixer->maps({Var(x), Sequences::single(12), nullptr}).weights;
    };
    const Tensor few = maps(some), all = maps(full);
    for (int64_t row = 0; row < few.rows(); ++row) {
      double least_seen = 1, most_hidden = 0;
      int seen = 0;
      for (int64_t j = 0; j < 12; ++j) {
        const double weight = value_at(all, row * 12 + j);
        if (value_at(few, row * 12 + j) > 0)
          ++seen, least_seen = std::min(least_seen, weight);
        else
          most_hidden = std::max(most_hidden, weight);
      }
      EXPECT_EQ(seen, std::min<int64_t>(3, causal ? row % 12 + 1 : 12)) << row;
      EXPECT_GE(least_seen, most_hidden) << row;
    }
  }
}

// The p^2 product keys of two sub-spaces: scores are sums of sub-scores, values concatenations.
// oracle: lowdim.product_keys
TEST(TopKeysField, HeadsAreTheSubSpacesOfProductKeys) {
  constexpr int64_t T = 6, d = 4;
  constexpr size_t p = 2;
  kit::Bench bench;
  const auto mixer =
      bench.make<Mixer>("attention", {.hidden_size = 2 * d, .causal = false},
                        "{num_attention_heads: 2, heads: identity, output: none, query_pre_attn_scalar: 8, "
                        "field: {type: top_keys, keys: 2}}");
  const Tensor x = kit::normal({T, 2 * d}, DType::f64, 3);
  const Tensor y = mixer->forward({Var(x), Sequences::single(T), nullptr}).value();
  const auto dot = [&](int64_t i, int64_t j, int64_t half) {
    double sum = 0;
    for (int64_t c = half * d; c < (half + 1) * d; ++c) sum += value_at(x, i * 2 * d + c) * value_at(x, j * 2 * d + c);
    return sum / std::sqrt(8.0);
  };
  for (int64_t i = 0; i < T; ++i) {
    std::vector<std::pair<double, int64_t>> best[2];
    for (const int64_t half : {0, 1}) {
      for (int64_t j = 0; j < T; ++j) best[half].emplace_back(-dot(i, j, half), j);
      std::sort(best[half].begin(), best[half].end());
      best[half].resize(p);
    }
    double total = 0;
    std::vector<double> want(2 * d, 0.0);
    for (const auto& [a, left] : best[0])
      for (const auto& [b, right] : best[1]) {
        const double weight = std::exp(-a - b);
        total += weight;
        for (int64_t c = 0; c < 2 * d; ++c) want[size_t(c)] += weight * value_at(x, (c < d ? left : right) * 2 * d + c);
      }
    for (int64_t c = 0; c < 2 * d; ++c) EXPECT_NEAR(value_at(y, i * 2 * d + c), want[size_t(c)] / total, 1e-10);
  }
}

TEST(TopKeysField, Decodes) { expect_decodes("{type: top_keys, keys: 4}"); }

}  // namespace
}  // namespace lithe
