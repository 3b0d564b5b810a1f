#include "lithe/eval/metrics.h"

#include <gtest/gtest.h>

#include <cmath>

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

}  // namespace
}  // namespace lithe
