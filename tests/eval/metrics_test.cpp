#include "lithe/eval/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/base/error.h"

namespace lithe {
namespace {

constexpr double kSha = 8847360, kMha = 28311552, kMhe = 8875008, kMqa = 15335424;

// oracle: metric.prr
TEST(Prr, PublishedFiguresReproduce) {
  EXPECT_NEAR(prr(80.6, 81.9, Better::higher), 98.41, 0.005);  // GLUE, MHE-MUL
  EXPECT_NEAR(prr(53.8, 43.0, Better::lower), 74.88, 0.005);   // WikiText-103, MHE-MUL
  EXPECT_NEAR(prr(81.5, 82.6, Better::higher), 98.67, 0.005);  // large models, columns swapped (E44)
  EXPECT_DOUBLE_EQ(prr(43.0, 43.0, Better::lower), 100);
  EXPECT_DOUBLE_EQ(prr(81.9, 81.9, Better::higher), 100);
}

TEST(Prr, AnInverseScoreAboveTwiceTheReferenceIsNegative) { EXPECT_DOUBLE_EQ(prr(129, 43, Better::lower), -100); }

// oracle: metric.peop
TEST(Peop, PublishedFiguresReproduce) {
  EXPECT_NEAR(peop(81.9, 79.2, kMha, kSha, Better::higher), 0.0155, 5e-5);
  EXPECT_NEAR(peop(80.6, 79.2, kMhe, kSha, Better::higher), 5.66, 0.005);
  EXPECT_NEAR(peop(62 * (1 - 0.129032), 62, kMhe, kSha, Better::lower), 41.29, 0.005);    // WikiText-103, MHE-ADD
  EXPECT_NEAR(peop(100 * (1 - 0.255507), 100, kMhe, kSha, Better::lower), 81.76, 0.005);  // PTB, MHE-MUL
  EXPECT_GT(peop(60, 62, kMqa, kSha, Better::lower), 0);
}

TEST(Peop, TheDirectionTurnsTheSignAndEqualParametersHaveNone) {
  EXPECT_DOUBLE_EQ(peop(3, 2, 20, 10, Better::higher), 0.5);
  EXPECT_DOUBLE_EQ(peop(3, 2, 20, 10, Better::lower), -0.5);
  EXPECT_TRUE(std::isnan(peop(3, 2, 10, 10, Better::lower)));
}

// Table 2.2 of the thesis, in parameters: the totals have a binary head, the embeddings are those of 0.5 with the one
// extra row that each published count has.
// oracle: metric.embedding_efficiency
TEST(EmbeddingEfficiency, TableTwoTwoReproduces) {
  const double base = 124647170, base_embeddings = 50265 * 768.0;
  EXPECT_NEAR(base / 1e6, 124.6, 0.05);
  EXPECT_NEAR(base_embeddings / 1e6, 38.6, 0.05);
  EXPECT_NEAR(poep(base_embeddings, base), 31.0, 0.05);
  struct Row {
    double embeddings, total, pcr_all, pcr_embeddings, poep;
  };
  for (const Row& row : {Row{797184, 86.84e6, 30.3, 97.9, 0.9}, Row{197376, 86.24e6, 30.8, 99.5, 0.2},
                         Row{99072, 86.14e6, 30.9, 99.7, 0.1}}) {
    EXPECT_NEAR(pcr(row.total, base), row.pcr_all, 0.05);
    EXPECT_NEAR(pcr(row.embeddings, base_embeddings), row.pcr_embeddings, 0.05);
    EXPECT_NEAR(poep(row.embeddings, row.total), row.poep, 0.05);
  }
  EXPECT_NEAR(prr(79.1, 79.5, Better::higher), 99.5, 0.05);
  EXPECT_DOUBLE_EQ(speed_up(2, 3), 1.5);
}

TEST(EmbeddingEfficiency, MoreParametersThanTheBaseAreNegativeAndNonsenseIsRefused) {
  EXPECT_DOUBLE_EQ(pcr(15, 10), -50);
  EXPECT_DOUBLE_EQ(pcr(0, 10), 100);
  EXPECT_THROW(pcr(1, 0), Error);
  EXPECT_THROW(poep(2, 1), Error);
  EXPECT_THROW(speed_up(0, 1), Error);
}

}  // namespace
}  // namespace lithe
