#include "lithe/analyze/indicators.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "lithe/base/error.h"
#include "lithe/base/random.h"

namespace lithe::analyze {
namespace {

// Maps are stored in f32, so a weight is off by at most half a unit in its last place.
constexpr double kRounding = 0x1p-24;

struct Maps {
  int64_t heads, length;
  std::vector<float> weights;
  bool causal = true;
  operator AttentionMaps() const { return {heads, length, weights, causal}; }
};

Maps identity(int64_t L) {
  Maps m{1, L, std::vector<float>(size_t(L * L))};
  for (int64_t i = 0; i < L; ++i) m.weights[size_t(i * L + i)] = 1;
  return m;
}

Maps uniform(int64_t L) {
  Maps m{1, L, std::vector<float>(size_t(L * L))};
  for (int64_t i = 0; i < L; ++i)
    for (int64_t j = 0; j <= i; ++j) m.weights[size_t(i * L + j)] = float(1 / double(i + 1));
  return m;
}

Maps random_causal(int64_t L, uint64_t seed) {
  Maps m{1, L, std::vector<float>(size_t(L * L))};
  const RandomKey key{.seed = seed};
  for (int64_t i = 0; i < L; ++i) {
    double sum = 0;
    std::vector<double> row;
    for (int64_t j = 0; j <= i; ++j) sum += row.emplace_back(std::exp(2 * random_normal(key, uint64_t(i * L + j))));
    for (int64_t j = 0; j <= i; ++j) m.weights[size_t(i * L + j)] = float(row[size_t(j)] / sum);
  }
  return m;
}

Maps heads(const std::vector<Maps>& of) {
  Maps m{0, of[0].length, {}};
  for (const Maps& one : of) {
    m.heads += one.heads;
    m.weights.insert(m.weights.end(), one.weights.begin(), one.weights.end());
  }
  return m;
}

// oracle: ind.entropy
TEST(Indicators, Entropy) {
  EXPECT_NEAR(entropy(uniform(4)), std::log(24.0), 16 * kRounding);
  EXPECT_NEAR(entropy(uniform(4)), 3.178054, 5e-7);
  EXPECT_EQ(entropy(identity(4)), 0);
  EXPECT_NEAR(entropy_limit(4), std::log(24.0), 1e-14);
  Maps m = random_causal(6, 1), turned = m;
  std::reverse(turned.weights.begin() + 5 * 6, turned.weights.begin() + 6 * 6);
  EXPECT_NEAR(entropy(turned), entropy(m), 1e-12);
  for (uint64_t seed = 1; seed <= 20; ++seed) EXPECT_LT(entropy(random_causal(9, seed)), entropy_limit(9));
  EXPECT_NEAR(entropy(heads({identity(4), uniform(4)})), std::log(24.0) / 2, 16 * kRounding);
  EXPECT_NEAR(indicators(uniform(7)).normalised[0], 1, 49 * kRounding);
  EXPECT_EQ(indicators(identity(7)).normalised[0], 0);
}

// oracle: ind.concentration
TEST(Indicators, Concentration) {
  EXPECT_NEAR(concentration(uniform(4)), 1.443376, 5e-7);
  EXPECT_EQ(concentration(identity(4)), 2);
  const Range range = concentration_range(9);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    EXPECT_GE(concentration(random_causal(9, seed)), range.low);
    EXPECT_LE(concentration(random_causal(9, seed)), range.high);
  }
  EXPECT_NEAR(indicators(uniform(7)).normalised[1], 0, 49 * kRounding);
  EXPECT_EQ(indicators(identity(7)).normalised[1], 1);
}

// oracle: ind.headdiv
TEST(Indicators, HeadDiversity) {
  EXPECT_EQ(head_diversity(heads({uniform(4), uniform(4), uniform(4)})), 0);
  const Maps two = heads({identity(2), uniform(2)});
  EXPECT_NEAR(head_diversity(two), 1.0 / 6, kRounding);
  EXPECT_NEAR(head_diversity(two, 1), 0.235702, 5e-7);
  EXPECT_EQ(head_diversity(uniform(5)), 0);
  EXPECT_EQ(head_diversity(uniform(5), 1), 0);
  const Maps a = random_causal(5, 1), b = random_causal(5, 2), c = random_causal(5, 3);
  EXPECT_NEAR(head_diversity(heads({a, b, c})), head_diversity(heads({c, a, b})), 1e-14);
}

// oracle: ind.sink
TEST(Indicators, Sink) {
  EXPECT_NEAR(sink(uniform(4)), 0.520833, 5e-7);
  EXPECT_EQ(sink(identity(4)), 0.25);
  Maps first = identity(4);
  std::fill(first.weights.begin(), first.weights.end(), 0.f);
  for (size_t i = 0; i < 4; ++i) first.weights[4 * i] = 1;
  EXPECT_EQ(sink(first), 1);
}

// oracle: ind.locfoc
TEST(Indicators, LocalFocus) {
  const double uniform_four[] = {0.520833, 0.361111, 0.291667, 0.25}, diagonal[] = {1, 0, 0, 0};
  for (int64_t back = 0; back < 4; ++back) {
    EXPECT_NEAR(local_focus(uniform(4), back), uniform_four[back], 5e-7);
    EXPECT_EQ(local_focus(identity(4), back), diagonal[back]);
    for (uint64_t seed = 1; seed <= 10; ++seed) EXPECT_LE(local_focus(random_causal(9, seed), back), 1);
  }
  EXPECT_TRUE(std::isnan(local_focus(uniform(3), 3)));
}

TEST(Indicators, AllEight) {
  const Indicators all = indicators(identity(4));  // what a mixer without mixing reports
  EXPECT_EQ(all.raw, (std::array<double, kIndicators>{0, 2, 0, 0.25, 1, 0, 0, 0}));
  EXPECT_THROW(indicators(AttentionMaps{2, 4, identity(4).weights}), Error);
}

// An encoder's tokens see all others: uniform maps are the end of the range, and every pair counts.
TEST(Indicators, MapsThatAreNotCausal) {
  const int64_t L = 5;
  Maps even{1, L, std::vector<float>(size_t(L * L), 1 / float(L)), false}, one = identity(L);
  one.causal = false;
  EXPECT_NEAR(entropy_limit(L, false), 5 * std::log(5.0), 1e-14);
  EXPECT_NEAR(indicators(even).normalised[0], 1, 25 * kRounding);
  EXPECT_NEAR(indicators(even).normalised[1], 0, 25 * kRounding);
  EXPECT_EQ(indicators(one).normalised[0], 0);
  EXPECT_NEAR(indicators(one).normalised[1], 1, 1e-12);
  Maps both = heads({even, one});
  both.causal = false;
  // Half the difference of two heads: |1 - 1/L| / 2 on the diagonal, 1 / (2 L) elsewhere.
  EXPECT_NEAR(head_diversity(both), (5 * 0.4 + 20 * 0.1) / 25, 1e-7);
}

TEST(Indicators, EmpiricalRangeSpansTheLayers) {
  Indicators low = indicators(identity(4)), middle = indicators(heads({identity(4), uniform(4)})),
             high = indicators(uniform(4));
  normalise_empirically({&middle, &low, &high});
  EXPECT_EQ(low.normalised[0], 0);
  EXPECT_NEAR(middle.normalised[0], 0.5, 1e-12);
  EXPECT_EQ(high.normalised[0], 1);
  EXPECT_EQ(low.normalised[1], 1);
  EXPECT_EQ(high.normalised[1], 0);
  EXPECT_EQ(low.normalised[3], low.raw[3]);
}

}  // namespace
}  // namespace lithe::analyze
