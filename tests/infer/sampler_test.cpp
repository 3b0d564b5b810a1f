#include "lithe/infer/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "lithe/base/error.h"

namespace lithe {
namespace {

using Counts = std::map<int32_t, int>;

Counts draw(const std::vector<float>& logits, GenerateConfig config, int n = 4000) {
  Counts counts;
  for (int i = 0; i < n; ++i) ++counts[choose_token(logits, {}, config, i % 7, i / 7)];
  return counts;
}

std::set<int32_t> support(const std::vector<float>& logits, const GenerateConfig& config) {
  std::set<int32_t> out;
  for (const auto& [token, count] : draw(logits, config)) out.insert(token);
  return out;
}

// Probabilities 0.5, 0.25, 0.125, 0.0625, 0.0625 at ids 3, 0, 4, 1, 2.
const std::vector<float> kLogits = {std::log(0.25f), std::log(0.0625f), std::log(0.0625f), std::log(0.5f),
                                    std::log(0.125f)};

// oracle: search.greedy
TEST(Sampler, GreedyIsTheHighestLogitAndTheLowerIdOnTies) {
  GenerateConfig c;
  c.do_sample = false;
  EXPECT_EQ(choose_token(kLogits, {}, c, 0, 0), 3);
  EXPECT_EQ(choose_token(std::vector<float>{1, 7, 7, 2}, {}, c, 0, 0), 1);
  EXPECT_EQ(choose_token(std::vector<float>{-INFINITY, -3}, {}, c, 0, 0), 1);
  c.do_sample = true;
  c.temperature = 0;
  for (int position = 0; position < 50; ++position) EXPECT_EQ(choose_token(kLogits, {}, c, 0, position), 3);
}

TEST(Sampler, FrequenciesFollowTheSoftmax) {
  GenerateConfig c;
  const int n = 20000;
  Counts counts = draw(kLogits, c, n);
  const std::vector<double> p = {0.25, 0.0625, 0.0625, 0.5, 0.125};
  for (size_t i = 0; i < p.size(); ++i)
    EXPECT_NEAR(counts[int32_t(i)], n * p[i], 5 * std::sqrt(n * p[i] * (1 - p[i]))) << i;
  // Temperature 2 takes the root of each probability.
  c.temperature = 2;
  counts = draw(kLogits, c, n);
  double sum = 0;
  for (double v : p) sum += std::sqrt(v);
  for (size_t i = 0; i < p.size(); ++i) {
    const double q = std::sqrt(p[i]) / sum;
    EXPECT_NEAR(counts[int32_t(i)], n * q, 5 * std::sqrt(n * q * (1 - q))) << i;
  }
}

TEST(Sampler, TopKAndTopPKeepTheRightSets) {
  GenerateConfig c;
  const auto with_k = [&](int64_t k) {
    c.top_k = k;
    return support(kLogits, c);
  };
  EXPECT_EQ(with_k(1), (std::set<int32_t>{3}));
  EXPECT_EQ(with_k(2), (std::set<int32_t>{0, 3}));
  EXPECT_EQ(with_k(4), (std::set<int32_t>{0, 1, 3, 4}));  // of the two equal ones the lower id
  EXPECT_EQ(with_k(0).size(), 5u);
  EXPECT_EQ(with_k(1000).size(), 5u);
  c.top_k = 0;
  const auto with_p = [&](double p) {
    c.top_p = p;
    return support(kLogits, c);
  };
  EXPECT_EQ(with_p(0.01), (std::set<int32_t>{3}));
  EXPECT_EQ(with_p(0.49), (std::set<int32_t>{3}));
  EXPECT_EQ(with_p(0.51), (std::set<int32_t>{0, 3}));
  EXPECT_EQ(with_p(0.8), (std::set<int32_t>{0, 3, 4}));
  EXPECT_EQ(with_p(1).size(), 5u);
  c.top_k = 2;  // top-p counts within what top-k left: 2/3 and 1/3
  EXPECT_EQ(with_p(0.6), (std::set<int32_t>{3}));
  EXPECT_EQ(with_p(0.7), (std::set<int32_t>{0, 3}));
}

TEST(Sampler, RepetitionPenaltyDividesPositiveAndMultipliesNegative) {
  GenerateConfig c;
  c.do_sample = false;
  c.repetition_penalty = 2;
  const std::vector<float> logits = {3, 2, -1, -1.5};
  EXPECT_EQ(choose_token(logits, std::vector<int32_t>{0}, c, 0, 0), 1);        // 1.5 < 2
  EXPECT_EQ(choose_token(logits, std::vector<int32_t>{0, 0, 0}, c, 0, 0), 1);  // once, however often it stood there
  EXPECT_EQ(choose_token(logits, std::vector<int32_t>{0, 1}, c, 0, 0), 0);     // 1.5 > 1
  EXPECT_EQ(choose_token(std::vector<float>{-1, -1.5}, std::vector<int32_t>{0}, c, 0, 0), 1);  // -2 < -1.5
  EXPECT_EQ(choose_token(logits, std::vector<int32_t>{-1, 99, 0}, c, 0, 0), 1);  // ids beyond the logits do not matter
}

TEST(Sampler, DrawsAreAFunctionOfSeedSequenceAndPosition) {
  GenerateConfig a;
  const std::vector<float> flat(1000, 0.f);
  std::set<int32_t> seen;
  for (int64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(choose_token(flat, {}, a, 2, i), choose_token(flat, {}, a, 2, i));
    seen.insert(choose_token(flat, {}, a, 2, i));
  }
  EXPECT_GT(seen.size(), 15u);
  GenerateConfig b = a;
  b.seed = 2;
  int same = 0;
  for (int64_t i = 0; i < 50; ++i) same += choose_token(flat, {}, a, 0, i) == choose_token(flat, {}, b, 0, i);
  EXPECT_LT(same, 5);
  same = 0;
  for (int64_t i = 0; i < 50; ++i) same += choose_token(flat, {}, a, 0, i) == choose_token(flat, {}, a, 1, i);
  EXPECT_LT(same, 5);
}

TEST(Sampler, ExtremeTemperaturesAndPenaltiesStayDefined) {
  GenerateConfig c;
  c.temperature = 1e-30;
  EXPECT_EQ(support(kLogits, c), (std::set<int32_t>{3}));
  c.temperature = 1e30;
  EXPECT_EQ(support(kLogits, c).size(), 5u);
  EXPECT_EQ(choose_token(std::vector<float>{5}, {}, c, 0, 0), 0);
}

TEST(Sampler, RefusesLogitsThatAreNotNumbers) {
  GenerateConfig c;
  const float nan = std::nanf("");
  EXPECT_THROW(choose_token({}, {}, c, 0, 0), Error);
  EXPECT_THROW(choose_token(std::vector<float>{nan, 1}, {}, c, 0, 0), Error);
  EXPECT_THROW(choose_token(std::vector<float>{1, nan, 2}, {}, c, 0, 0), Error);
  EXPECT_THROW(choose_token(std::vector<float>{1, INFINITY}, {}, c, 0, 0), Error);
  EXPECT_THROW(choose_token(std::vector<float>{-INFINITY, -INFINITY}, {}, c, 0, 0), Error);
}

TEST(Sampler, MinPLeavesOutWhatIsFarLessLikelyThanTheBest) {
  GenerateConfig c;
  c.min_p = 0.4;  // of 0.5: 0.25 stays, 0.125 goes
  EXPECT_EQ(support(kLogits, c), (std::set<int32_t>{0, 3}));
  const Counts counts = draw(kLogits, c);
  EXPECT_NEAR(double(counts.at(3)) / 4000, 2.0 / 3, 0.04);
  c.min_p = 1;
  EXPECT_EQ(support(kLogits, c), (std::set<int32_t>{3}));
  c.min_p = 0.2;
  c.top_k = 2;  // both hold
  EXPECT_EQ(support(kLogits, c), (std::set<int32_t>{0, 3}));
}

}  // namespace
}  // namespace lithe
