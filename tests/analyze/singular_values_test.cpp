#include "lithe/analyze/singular_values.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/base/random.h"

namespace lithe::analyze {
namespace {

constexpr int64_t n = 9;

std::vector<float> causal_map(uint64_t seed) {
  std::vector<float> a(size_t(n * n), 0.f);
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    std::vector<double> row;
    for (int64_t j = 0; j <= i; ++j)
      sum += row.emplace_back(std::exp(random_normal({.seed = seed}, uint64_t(i * n + j))));
    for (int64_t j = 0; j <= i; ++j) a[size_t(i * n + j)] = float(row[size_t(j)] / sum);
  }
  return a;
}

double distance(const std::vector<double>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - double(b[i])) * (a[i] - double(b[i]));
  return std::sqrt(sum);
}

// oracle: lowdim.svd
TEST(SingularValues, MapsOfLowerRank) {
  const std::vector<float> a = causal_map(3);
  const SingularValues of = singular_values(a, n);
  EXPECT_LE(distance(of.truncated(n), a), 1e-12);
  for (int64_t rank = 0; rank < n; ++rank) {
    double left = 0;
    for (int64_t k = rank; k < n; ++k) left += of.values[size_t(k)] * of.values[size_t(k)];
    EXPECT_NEAR(distance(of.truncated(rank), a), std::sqrt(left), 1e-12);
    if (rank) {
      EXPECT_LE(of.values[size_t(rank)], of.values[size_t(rank - 1)]);
    }
  }
  double product = 1, diagonal = 1;  // of a triangular matrix
  for (int64_t k = 0; k < n; ++k) product *= of.values[size_t(k)], diagonal *= double(a[size_t(k * n + k)]);
  EXPECT_NEAR(product, diagonal, 1e-12);
  bool leaves = false;  // the simplex: numbers below 0
  for (const double x : of.truncated(3)) leaves = leaves || x < -1e-6;
  EXPECT_TRUE(leaves);
}

// oracle: lowdim.svd
TEST(SingularValues, RanksThatMapsNeed) {
  std::vector<float> identity(size_t(n * n), 0.f), even(size_t(n * n), 1.f / n);
  for (int64_t i = 0; i < n; ++i) identity[size_t(i * n + i)] = 1;
  EXPECT_EQ(singular_values(even, n).rank_of(0.99), 1);
  EXPECT_EQ(singular_values(identity, n).rank_of(0.9), 9);  // 8 of 9 have 0.889
  EXPECT_EQ(singular_values(identity, n).rank_of(0.88), 8);
  std::vector<float> both = identity;
  both.insert(both.end(), even.begin(), even.end());
  const MapRanks ranks = map_ranks({2, n, both, false});
  EXPECT_EQ(ranks.most, (std::vector<int64_t>{9, 1}));
  EXPECT_EQ(ranks.nearly_all, (std::vector<int64_t>{9, 1}));
  const std::vector<float> longer(size_t(257 * 257), 0.f);
  EXPECT_TRUE(map_ranks({1, 257, longer, false}).most.empty());
}

}  // namespace
}  // namespace lithe::analyze
