#include "lithe/eval/similarity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "lithe/base/error.h"
#include "lithe/base/random.h"
#include "lithe/base/threads.h"
#include "tests/support/errors.h"

namespace lithe {
namespace {

constexpr Similarity kBoth[] = {Similarity::cosine, Similarity::euclidean};

Tensor random_rows(int64_t n, int64_t width, uint64_t seed) {
  const Tensor x = empty({n, width}, DType::f32);
  for (int64_t i = 0; i < x.numel(); ++i)
    x.data<float>()[i] = float(random_normal({.seed = seed, .purpose = purpose_of("rows")}, uint64_t(i)));
  return x;
}

std::vector<float> values(const Tensor& x) { return {x.data<float>(), x.data<float>() + x.numel()}; }

// The definitions, one after the other in long double.
double slow(const Tensor& a, int64_t i, const Tensor& b, int64_t j, Similarity measure) {
  const int64_t width = a.dim(1);
  long double ab = 0, aa = 0, bb = 0, distance = 0;
  for (int64_t c = 0; c < width; ++c) {
    const long double x = a.data<float>()[i * width + c], y = b.data<float>()[j * width + c];
    ab += x * y, aa += x * x, bb += y * y, distance += (x - y) * (x - y);
  }
  if (measure == Similarity::euclidean) return double(-std::sqrt(distance));
  return aa > 0 && bb > 0 ? double(ab / std::sqrt(aa * bb)) : 0;
}

// One rounding to f32 of a sum in f64, whose own error is far below.
double bound(double exact) { return std::max(1.0, std::abs(exact)) * double(std::numeric_limits<float>::epsilon()); }

struct OneThread {
  const int before = threads();
  OneThread() { set_threads(1); }
  ~OneThread() { set_threads(before); }
};

// oracle: app.similarity
TEST(RowSimilarity, EqualsTheDefinitionAtOddWidths) {
  for (const int64_t width : {1, 7, 8, 9, 31, 100})
    for (const Similarity measure : kBoth) {
      const Tensor a = random_rows(5, width, 1), b = random_rows(5, width, 2);
      const Tensor paired = row_similarity(a, b, measure), all = all_similarities(a, b, measure);
      EXPECT_EQ(all.shape(), (Shape{5, 5}));
      for (int64_t i = 0; i < 5; ++i) {
        for (int64_t j = 0; j < 5; ++j) {
          const double exact = slow(a, i, b, j, measure);
          EXPECT_NEAR(value_at(all, i * 5 + j), exact, bound(exact)) << width;
        }
        EXPECT_EQ(value_at(paired, i), value_at(all, i * 5 + i));
      }
    }
}

TEST(RowSimilarity, IsSymmetricAndARowIsLikeItself) {
  const Tensor x = random_rows(40, 33, 3);
  for (const Similarity measure : kBoth) {
    const Tensor all = all_similarities(x, x, measure);
    for (int64_t i = 0; i < 40; ++i) {
      EXPECT_EQ(value_at(all, i * 40 + i), measure == Similarity::cosine ? 1 : 0);
      for (int64_t j = 0; j < 40; ++j) EXPECT_EQ(value_at(all, i * 40 + j), value_at(all, j * 40 + i));
    }
  }
}

TEST(RowSimilarity, EuclideanDistancesKeepTheTriangleInequality) {
  const Tensor x = random_rows(12, 5, 4), all = all_similarities(x, x, Similarity::euclidean);
  const auto distance = [&](int64_t i, int64_t j) { return -value_at(all, i * 12 + j); };
  for (int64_t i = 0; i < 12; ++i)
    for (int64_t j = 0; j < 12; ++j)
      for (int64_t k = 0; k < 12; ++k) EXPECT_LE(distance(i, k), (distance(i, j) + distance(j, k)) * (1 + 1e-6));
}

TEST(RowSimilarity, OnUnitRowsBothMeasuresRankAlike) {
  const Tensor x = normalize_rows(random_rows(50, 6, 5));
  EXPECT_EQ(nearest_rows(x, x, 49, Similarity::cosine, true).index,
            nearest_rows(x, x, 49, Similarity::euclidean, true).index);
}

TEST(RowSimilarity, OfAZeroRowIsZeroByCosine) {
  const Tensor x = tensor_of(Shape{2, 2}, std::vector<float>{0, 0, 3, 4});
  EXPECT_EQ(values(all_similarities(x, x, Similarity::cosine)), (std::vector<float>{0, 0, 0, 1}));
  EXPECT_EQ(values(all_similarities(x, x, Similarity::euclidean)), (std::vector<float>{0, -5, -5, 0}));
  EXPECT_EQ(values(normalize_rows(x)), (std::vector<float>{0, 0, 0.6f, 0.8f}));
}

TEST(RowSimilarity, TinyAndHugeRowsNeitherVanishNorOverflow) {
  const Tensor x = tensor_of(Shape{2, 2}, std::vector<float>{1e-45f, 0, 3e38f, 3e38f});
  const Tensor all = all_similarities(x, x, Similarity::cosine);
  EXPECT_EQ(value_at(all, 0), 1);
  EXPECT_EQ(value_at(all, 3), 1);
  EXPECT_NEAR(value_at(all, 1), std::sqrt(0.5), 1e-7);
}

TEST(NearestRows, EqualSortingAllScores) {
  const Tensor queries = random_rows(130, 6, 6), rows = random_rows(700, 6, 7);
  for (const Similarity measure : kBoth) {
    const Tensor all = all_similarities(queries, rows, measure);
    for (const int64_t k : {1, 13, 700}) {
      const Neighbours found = nearest_rows(queries, rows, k, measure);
      ASSERT_EQ(found.index.size(), size_t(130 * k));
      for (int64_t i = 0; i < 130; ++i) {
        const float* scores = all.data<float>() + i * 700;
        std::vector<int64_t> order(700);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return scores[a] > scores[b]; });
        for (int64_t j = 0; j < k; ++j) {
          ASSERT_EQ(found.index[size_t(i * k + j)], order[size_t(j)]) << i << " " << j;
          ASSERT_EQ(found.score[size_t(i * k + j)], scores[order[size_t(j)]]);
        }
      }
    }
  }
}

TEST(NearestRows, TiesGoByIndexAndSelfCanBeLeftOut) {
  const Tensor x = tensor_of(Shape{5, 1}, std::vector<float>{1, 1, 2, 1, 2});
  EXPECT_EQ(nearest_rows(x.slice(0, 1), x, 5, Similarity::cosine).index, (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(nearest_rows(x.slice(0, 1), x, 4, Similarity::euclidean).index, (std::vector<int64_t>{0, 1, 3, 2}));
  EXPECT_EQ(nearest_rows(x, x, 2, Similarity::euclidean, true).index,
            (std::vector<int64_t>{1, 3, 0, 3, 4, 0, 0, 1, 2, 0}));
}

TEST(NearestRows, BlocksAndThreadsDoNotMatter) {
  const Tensor rows = random_rows(70000, 3, 8), queries = random_rows(3, 3, 9);  // more than one block of rows
  const Neighbours many = nearest_rows(queries, rows, 10, Similarity::euclidean);
  const OneThread one;
  const Neighbours few = nearest_rows(queries, rows, 10, Similarity::euclidean);
  EXPECT_EQ(many.index, few.index);
  EXPECT_EQ(many.score, few.score);
  const Tensor all = all_similarities(queries, rows, Similarity::euclidean);
  for (int64_t i = 0; i < 3; ++i) {
    const float* scores = all.data<float>() + i * 70000;
    EXPECT_EQ(few.index[size_t(i * 10)], std::max_element(scores, scores + 70000) - scores);
  }
}

TEST(Centroid, IsTheMeanOfTheRows) {
  const Tensor x = tensor_of(Shape{3, 2}, std::vector<float>{1, -1, 2, 5, 6, 2});
  EXPECT_EQ(values(centroid(x)), (std::vector<float>{3, 2}));
  EXPECT_EQ(centroid(x).shape(), (Shape{2}));
}

TEST(Similarity, RefusesWhatIsNoRows) {
  const Tensor x = random_rows(3, 4, 1), wide = random_rows(3, 5, 1), none = empty({0, 4}, DType::f32);
  Tensor infinite = clone(x);
  infinite.data<float>()[6] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(kit::error_of([&] { all_similarities(x, wide, Similarity::cosine); }),
            "all_similarities: both sides must have rows of one width, got [3,4] and [3,5]");
  EXPECT_EQ(kit::error_of([&] { row_similarity(x, x.slice(0, 2), Similarity::cosine); }),
            "row_similarity: a and b must have one shape, got [3,4] and [2,4]");
  EXPECT_EQ(kit::error_of([&] { centroid(infinite); }), "centroid: rows must be finite, got inf in row 1");
  EXPECT_EQ(kit::error_of([&] { centroid(none); }), "centroid: there must be a row, got [0,4]");
  EXPECT_NE(kit::error_of([&] { centroid(zeros({3, 4}, DType::f64)); }).find("must be f32 [N, D]"), std::string::npos);
  EXPECT_EQ(kit::error_of([&] { nearest_rows(x, x, 3, Similarity::cosine, true); }),
            "nearest_rows: k must be between 1 and the number of other rows, 2, got 3");
  EXPECT_EQ(kit::error_of([&] { nearest_rows(x, x, 4, Similarity::cosine); }),
            "nearest_rows: k must be between 1 and the number of rows, 3, got 4");
  EXPECT_EQ(all_similarities(none, x, Similarity::cosine).shape(), (Shape{0, 3}));
  EXPECT_EQ(similarity_of("euclidean"), Similarity::euclidean);
  EXPECT_EQ(kit::error_of([&] { similarity_of("dot"); }), "similarity: must be cosine or euclidean, got 'dot'");
}

}  // namespace
}  // namespace lithe
