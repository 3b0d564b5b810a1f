#include "lithe/ops/basic.h"
#include "tests/parts/field/sparse_kit.h"

namespace lithe {
namespace {

// oracle: sparse.kmeans
TEST(KMeansField, OneClusterIsFullAttention) {
  expect_same_field("{type: kmeans, clusters: 1}", "full", true);
  expect_same_field("{type: kmeans, clusters: 1}", "full", false);
}

// Keys are divided among the clusters: queries of two clusters share no key beside their own.
// oracle: sparse.kmeans
TEST(KMeansField, ClustersDivideTheKeys) {
  const auto pairs = FieldAttention("{type: kmeans, clusters: 4}", false).pairs(50)[0];
  for (size_t a = 0; a < 50; ++a)
    for (size_t b = 0; b < 50; ++b) {
      int common = 0, differ = 0;
      for (size_t j = 0; j < 50; ++j) {
        if (j == a || j == b) continue;
        common += pairs[a][j] && pairs[b][j];
        differ += pairs[a][j] != pairs[b][j];
      }
      EXPECT_TRUE(common == 0 || differ == 0) << a << " " << b;
    }
}

// oracle: sparse.kmeans
TEST(KMeansField, TheOrderOfCentroidsDoesNotMatter) {
  FieldAttention one("{type: kmeans, clusters: 3}"), other("{type: kmeans, clusters: 3}");
  const Tensor from = one.bench["part.field.centroids"], to = other.bench["part.field.centroids"];
  for (int64_t c = 0; c < 3; ++c) copy_into(to.slice(c, c + 1), from.slice((c + 1) % 3, (c + 1) % 3 + 1));
  EXPECT_EQ(one.pairs(30), other.pairs(30));
}

TEST(KMeansField, Decodes) { expect_decodes("{type: kmeans, clusters: 4}"); }

// Each centroid becomes decay times itself and the rest times the mean of the unit vectors that are assigned to it, at
// length 1; without a gradient, and only where a step of training runs.
// oracle: sparse.kmeans
TEST(KMeansField, CentroidsFollowTheirVectors) {
  FieldAttention attention("{type: kmeans, clusters: 3, centroids: ema, decay: 0.75, commitment: 0}");
  const Tensor centroids = attention.bench["part.field.centroids"], before = clone(centroids);
  const Tensor x = kit::normal({20, 8}, DType::f64, 1);
  attention(x);  // reads, and learns nothing
  attention.bench.parameters().stepped();
  EXPECT_EQ(kit::largest_difference(centroids, before), 0);
  {
    Tape tape;
    tape.backward(sum(attention.mixer->forward({Var(x), Sequences::single(20), nullptr})));
  }
  EXPECT_EQ(kit::largest_difference(centroids, before), 0);
  attention.bench.parameters().stepped();
  std::vector<std::vector<double>> sums(3, std::vector<double>(8, 0.0));
  std::vector<double> counts(3, 0.0);
  for (const char* map : {"part.heads.q.weight", "part.heads.k.weight"}) {
    const Tensor rows = kit::product(x, attention.bench[map]);
    for (int64_t i = 0; i < 20; ++i) {
      double square = 0, most = -1e300;
      size_t best = 0;
      for (int64_t c = 0; c < 8; ++c) square += value_at(rows, i * 8 + c) * value_at(rows, i * 8 + c);
      for (size_t n = 0; n < 3; ++n) {
        double dot = 0;
        for (int64_t c = 0; c < 8; ++c) dot += value_at(rows, i * 8 + c) * value_at(before, int64_t(n) * 8 + c);
        if (dot > most) most = dot, best = n;
      }
      ++counts[best];
      for (int64_t c = 0; c < 8; ++c) sums[best][size_t(c)] += value_at(rows, i * 8 + c) / std::sqrt(square);
    }
  }
  for (size_t n = 0; n < 3; ++n) {
    ASSERT_GT(counts[n], 0);
    std::vector<double> want;
    double square = 0;
    for (int64_t c = 0; c < 8; ++c) {
      want.push_back(0.75 * value_at(before, int64_t(n) * 8 + c) + 0.25 * sums[n][size_t(c)] / counts[n]);
      square += want.back() * want.back();
    }
    for (int64_t c = 0; c < 8; ++c)
      EXPECT_NEAR(value_at(centroids, int64_t(n) * 8 + c), want[size_t(c)] / std::sqrt(square), 1e-12);
  }
  const Tensor after = clone(centroids);
  attention.bench.parameters().stepped();  // nothing came
  EXPECT_EQ(kit::largest_difference(centroids, after), 0);
}

// Every centroid takes w queries and w keys: a query sees those keys, for each centroid that took it, and its own.
// oracle: sparse.kmeans
TEST(KMeansField, BalancedClustersAreOfOneSize) {
  expect_same_field("{type: kmeans, clusters: 1, balanced: true}", "full", false);
  expect_same_field("{type: kmeans, clusters: 3, balanced: true, window: 9}", "full", false);
  const auto pairs = FieldAttention("{type: kmeans, clusters: 4, balanced: true, window: 5}", false).pairs(40)[0];
  int64_t most = 0;
  for (size_t i = 0; i < 40; ++i) {
    EXPECT_TRUE(pairs[i][i]);
    const auto others = std::count(pairs[i].begin(), pairs[i].end(), 1) - 1;
    most += others > 0;
    EXPECT_TRUE(others == 0 || (others >= 4 && others <= 20)) << others;
  }
  EXPECT_LE(most, 20);
  EXPECT_NE(kit::coded_error_of([] { FieldAttention("{type: kmeans, balanced: true}"); }).find("has no causal form"),
            std::string::npos);
}

TEST(KMeansField, KeepsClusters) {
  expect_keeps_labels("{type: kmeans, clusters: 4, commitment: 0}", 2, 2);
  expect_keeps_labels("{type: kmeans, clusters: 257, commitment: 0}", 4);
}

}  // namespace
}  // namespace lithe
