#include "lithe/compare/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/base/random.h"

namespace lithe::compare {
namespace {

// Tables of Student's distribution, two-sided 95 % and 99 %, to all printed digits.
TEST(Student, QuantilesOfTheTables) {
  EXPECT_NEAR(student_two_sided(0.95, 1), 12.706, 5e-4);
  EXPECT_NEAR(student_two_sided(0.95, 2), 4.303, 5e-4);
  EXPECT_NEAR(student_two_sided(0.95, 10), 2.228, 5e-4);
  EXPECT_NEAR(student_two_sided(0.99, 5), 4.032, 5e-4);
  EXPECT_NEAR(student_two_sided(0.95, 1e7), 1.95996, 5e-6);
}

TEST(Student, ClosedFormsForOneAndTwoDegrees) {
  for (double t : {-30.0, -1.0, -0.1, 0.0, 0.5, 3.0, 1e3}) {
    EXPECT_NEAR(student_cdf(t, 1), 0.5 + std::atan(t) / M_PI, 1e-13) << t;
    EXPECT_NEAR(student_cdf(t, 2), 0.5 + t / (2 * std::sqrt(2 + t * t)), 1e-13) << t;
  }
}

TEST(Paired, IsTheTextbookTTest) {
  const Estimate e = paired({1, 2, 3, 4});
  EXPECT_DOUBLE_EQ(e.value, 2.5);
  EXPECT_DOUBLE_EQ(e.error, std::sqrt(5.0 / 3) / 2);
  EXPECT_EQ(e.df, 3);
  EXPECT_NEAR(e.p(), 0.0305, 5e-5);  // t = 3.873
  EXPECT_NEAR(e.half_width(0.95), 3.182446 * e.error, 1e-5);
}

TEST(Paired, OneValueKnowsNoNoiseAndZeroIsNoDifference) {
  EXPECT_EQ(paired({0.7}).p(), 1);
  EXPECT_TRUE(std::isinf(paired({0.7}).half_width()));
  EXPECT_EQ(paired({0, 0, 0}).p(), 1);
  EXPECT_EQ(paired({0, 0, 0}).half_width(), 0);
}

TEST(Combine, VariancesAddAndUnknownNoiseIsLeftOut) {
  const Estimate e = combine(1, {1, 3, 4}, {1, 4, 8});
  EXPECT_DOUBLE_EQ(e.error, 5);
  EXPECT_DOUBLE_EQ(e.df, 625.0 / (81.0 / 4 + 256.0 / 8));
  EXPECT_DOUBLE_EQ(combine(1, {1, 3, 0}, {1, 4, 8}).error, 4);
}

TEST(ResidualNoise, WhatVariantAndSeedExplainIsNotNoise) {
  EXPECT_NEAR(residual_noise({{1, 2, 5}, {4, 5, 8}}).deviation, 0, 8 * 16 * 2.3e-16);  // sums of 16 terms up to 8
  // Residuals +-0.5 in a 2 x 2 table: one degree of freedom, sum of squares 1.
  const Noise n = residual_noise({{1, 2}, {4, 3}});
  EXPECT_DOUBLE_EQ(n.df, 1);
  EXPECT_DOUBLE_EQ(n.deviation, 1);
  EXPECT_EQ(residual_noise({{1, 2}}).df, 0);
}

// For two variants the pooled noise is that of the paired differences.
// Critical values of C for two replicates (one degree of freedom each) at 1 %: 0.9950 for 3 groups is passed, less is
// not.
TEST(NoisierThanTheRest, IsCochransTest) {
  EXPECT_EQ(noisier_than_the_rest({{0, 10}, {5, 5.1}, {3, 3}}), (std::vector<bool>{false, false, false}));
  const std::vector<std::vector<double>> scores{{1, 1.01}, {2, 1.99}, {3, 3.02}, {4, 4}, {5, 5.01}, {6, 8}, {7, 6.99}};
  EXPECT_EQ(noisier_than_the_rest(scores), (std::vector<bool>{false, false, false, false, false, true, false}));
  EXPECT_EQ(noisier_than_the_rest({{1, 2}, {3, 3}}), (std::vector<bool>{false, false}));
  EXPECT_EQ(noisier_than_the_rest({{1}, {2}, {9}}), (std::vector<bool>{false, false, false}));
  EXPECT_EQ(noisier_than_the_rest({{1, 1}, {2, 2}, {3, 3}}), (std::vector<bool>{false, false, false}));
}

TEST(ResidualNoise, OfTwoVariantsIsThePairedTest) {
  const std::vector<double> a{1.0, 1.4, 0.7, 1.1}, b{1.2, 1.3, 1.1, 1.6};
  std::vector<double> d;
  for (size_t i = 0; i < a.size(); ++i) d.push_back(a[i] - b[i]);
  const Noise n = residual_noise({a, b});
  EXPECT_NEAR(std::sqrt(2.0 / 4) * n.deviation, paired(d).error, 1e-15);
  EXPECT_EQ(n.df, paired(d).df);
}

TEST(TextDifference, IsPerUnitAndOfEqualPiecesThePairedTest) {
  const std::vector<double> a{10, 12, 9, 14}, b{9, 12, 7, 11}, w{5, 5, 5, 5};
  const Estimate e = text_difference(a, b, w);
  const Estimate by_hand = paired({0.2, 0, 0.4, 0.6});
  EXPECT_DOUBLE_EQ(e.value, 0.3);
  EXPECT_NEAR(e.error, by_hand.error, 1e-15);
  EXPECT_EQ(e.df, 3);
  EXPECT_EQ(text_difference({3}, {1}, {2}).df, 0);
}

// Alike neighbours carry less than independent pieces: joining them makes the error larger, not smaller.
TEST(TextDifference, BlocksSeeThatNeighboursAreAlike) {
  std::vector<double> a, b(1024, 0.0), w(1024, 1.0);
  for (uint64_t i = 0; i < 1024; ++i) a.push_back(random_normal({.seed = 5}, i / 64));
  EXPECT_GT(text_difference(a, b, w, 16).error, 4 * text_difference(a, b, w, 1024).error);
}

TEST(Holm, IsThePublishedProcedure) {
  const auto p = holm({0.01, 0.04, 0.03, 0.005});
  EXPECT_DOUBLE_EQ(p[3], 0.02);
  EXPECT_DOUBLE_EQ(p[0], 0.03);
  EXPECT_DOUBLE_EQ(p[2], 0.06);
  EXPECT_DOUBLE_EQ(p[1], 0.06);  // never below one that came before
  EXPECT_EQ(holm({0.9, 0.8}), (std::vector<double>{1, 1}));
}

// Draws without any difference: a 95 % interval must miss 0 in about one of twenty. 4000 draws: the rate's deviation is
// sqrt(.05 .95 / 4000) = 0.0034; five of them.
TEST(Paired, IntervalsCoverAsOftenAsTheySay) {
  int missed = 0;
  for (uint64_t draw = 0; draw < 4000; ++draw) {
    std::vector<double> d;
    for (uint64_t i = 0; i < 4; ++i) d.push_back(random_normal({.seed = 11, .step = draw}, i));
    const Estimate e = paired(d);
    missed += std::abs(e.value) > e.half_width(0.95);
  }
  EXPECT_NEAR(missed / 4000.0, 0.05, 0.0172);
}

TEST(Quantile, InterpolatesBetweenOrderStatistics) {
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 2, 3}, 0.25), 1.75);
}

}  // namespace
}  // namespace lithe::compare
