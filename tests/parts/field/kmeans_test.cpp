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

TEST(KMeansField, KeepsClusters) {
  expect_keeps_labels("{type: kmeans, clusters: 4, commitment: 0}", 2, 2);
  expect_keeps_labels("{type: kmeans, clusters: 257, commitment: 0}", 4);
}

}  // namespace
}  // namespace lithe
