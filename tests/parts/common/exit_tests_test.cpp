#include "lithe/parts/common/exit_tests.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/errors.h"
#include "tests/support/numbers.h"

namespace lithe {
namespace {

std::vector<float> logits_of(const std::vector<double>& p) {
  std::vector<float> out;
  for (double x : p) out.push_back(float(std::log(x)) + 3);
  return out;
}

// Logits of two classes of which class `best` is likelier.
std::vector<float> prefers(int best) { return best ? std::vector<float>{0, 1} : std::vector<float>{1, 0}; }

// oracle: exit.entropy
TEST(Exits, EntropyHasTheValuesOfTheSource) {
  EXPECT_NEAR(prediction_entropy(logits_of({.25, .25, .25, .25})), 1.386294, 1e-6);
  EXPECT_NEAR(prediction_entropy(logits_of({.97, .01, .01, .01})), 0.167701, 1e-6);
  const ExitRule rule = exit_rule_named("entropy");
  EXPECT_EQ(rule.threshold, 0.5);
  ExitTests tests(rule, 2);
  EXPECT_FALSE(tests.leaves(0, {logits_of({.25, .25, .25, .25})}));
  EXPECT_TRUE(tests.leaves(1, {logits_of({.97, .01, .01, .01})}));
}

// oracle: exit.entropy
TEST(Exits, EntropyOfManyClassesMatchesDouble) {
  std::vector<float> z(5003);
  for (size_t i = 0; i < z.size(); ++i) z[i] = float(8 * std::sin(double(i) * 1.7)) - (i % 3 ? 40 : 0);
  double most = -INFINITY, total = 0, of_logits = 0;
  for (float x : z) most = std::max(most, double(x));
  for (float x : z) total += std::exp(x - most), of_logits += std::exp(x - most) * (x - most);
  EXPECT_NEAR(prediction_entropy(z), std::log(total) - of_logits / total, 1e-5);
  EXPECT_NEAR(top_two(z).first, 1 / total, 1e-6 / total + 1e-9);
}

// oracle: exit.maxprob
TEST(Exits, LargestProbabilityAndItsMargin) {
  const TopTwo top = top_two(logits_of({.2, .5, .3}));
  EXPECT_EQ(top.best, 1);
  EXPECT_NEAR(top.first, 0.5, 1e-6);
  EXPECT_NEAR(top.second, 0.3, 1e-6);
  const auto leaves = [](const std::string& rule, const std::vector<double>& p) {
    return ExitTests(exit_rule_named(rule), 1).leaves(0, {logits_of(p)});
  };
  for (const auto& p : {std::vector<double>{.5, .5}, {.999, .001}}) {
    EXPECT_TRUE(leaves("maxprob:0", p));
    EXPECT_FALSE(leaves("maxprob:1.01", p));
  }
  EXPECT_TRUE(leaves("margin:0.15", {.2, .5, .3}));
  EXPECT_FALSE(leaves("margin:0.25", {.2, .5, .3}));
}

// A larger entropy threshold leaves no later, a larger probability no earlier.
// oracle: exit.entropy
// oracle: exit.maxprob
// oracle: exit.similarity
TEST(Exits, ThresholdsAreMonotone) {
  const std::vector<std::vector<double>> layers{{.4, .3, .3}, {.6, .2, .2}, {.75, .15, .1}, {.9, .05, .05}};
  const auto left_at = [&](const std::string& rule) {
    ExitTests tests(exit_rule_named(rule), 1);
    int l = 0;
    while (l < int(layers.size()) && !tests.leaves(0, {logits_of(layers[size_t(l)])})) ++l;
    return l;
  };
  int before = 4;
  for (const char* t : {"0.01", "0.3", "0.5", "0.8", "1.0", "1.2"}) {
    const int now = left_at(std::string("entropy:") + t);
    EXPECT_LE(now, before) << t;
    before = now;
  }
  EXPECT_EQ(before, 0);
  before = 0;
  for (const char* t : {"0.0", "0.5", "0.7", "0.8", "1.1"}) {
    const int now = left_at(std::string("maxprob:") + t);
    EXPECT_GE(now, before) << t;
    before = now;
  }
  EXPECT_EQ(before, 4);
  for (const double cosine : {-1.0, 0.2, 0.97})
    for (const double low : {-0.5, 0.1, 0.9})
      EXPECT_GE(ExitTests({.criterion = ExitRule::Criterion::similarity, .threshold = low}, 1).leaves_by_cosine(cosine),
                ExitTests({.criterion = ExitRule::Criterion::similarity, .threshold = low + .05}, 1)
                    .leaves_by_cosine(cosine));
}

// oracle: exit.similarity
TEST(Exits, CosineIgnoresScaleAndDivergenceNeedsTwoPredictions) {
  const Tensor a = tensor_of({2, 3}, std::vector<float>{1, 2, 3, 0, 0, 0}),
               b = tensor_of({1, 3}, std::vector<float>{-5, -10, -15}),
               c = tensor_of({1, 3}, std::vector<float>{3, 0, -1});
  EXPECT_NEAR(row_cosine(a, 0, a, 0), 1, 1e-12);  // what an identity layer gives
  EXPECT_NEAR(row_cosine(a, 0, b, 0), -1, 1e-12);
  EXPECT_NEAR(row_cosine(a, 0, c, 0), 0, 1e-12);
  EXPECT_EQ(row_cosine(a, 1, a, 1), 1);
  EXPECT_EQ(row_cosine(a, 1, a, 0), 0);
  EXPECT_NEAR(js_divergence(logits_of({.5, .5}), logits_of({.5, .5})), 0, 1e-12);
  EXPECT_NEAR(js_divergence(std::vector<float>{0, -200}, std::vector<float>{-200, 0}), std::log(2.0), 1e-9);
  ExitTests tests(exit_rule_named("divergence:0.01"), 1);
  EXPECT_FALSE(tests.leaves(0, {logits_of({.5, .5})}));  // there is none below
  EXPECT_FALSE(tests.leaves(0, {logits_of({.9, .1})}));
  EXPECT_TRUE(tests.leaves(0, {logits_of({.89, .11})}));
}

// oracle: exit.patience
TEST(Exits, PatienceCountsUnchangedPairs) {
  const auto left_after = [](int64_t patience, const std::vector<int>& classes) {
    ExitTests tests({.criterion = ExitRule::Criterion::patience, .threshold = double(patience)}, 1);
    for (size_t l = 0; l < classes.size(); ++l)
      if (tests.leaves(0, {prefers(classes[l])})) return int64_t(l) + 1;
    return int64_t(0);
  };
  EXPECT_EQ(left_after(3, {0, 1, 1, 1, 1}), 5);
  EXPECT_EQ(left_after(3, {0, 0, 0, 1, 1, 1, 1}), 7);  // a change starts anew
  EXPECT_EQ(left_after(5, {1, 1, 1, 1, 1}), 0);        // as many as layers: never
}

TEST(Exits, RulesAreReadAndWritten) {
  for (const char* text : {"entropy:0.25", "maxprob:0.75:sentence", "patience:2:token", "layer:3", "predictor"})
    EXPECT_EQ(text_of(exit_rule_named(text)), text);
  EXPECT_EQ(text_of(exit_rule_named("patience")), "patience:3");
  EXPECT_EQ(exit_rule_named("similarity:sentence").unit, ExitRule::Unit::sentence);
  for (const char* text : {"entropi", "entropy:x", "entropy:0.5:word", "layer", "layer:0", "layer:1.5", "patience:0",
                           "predictor:1", "maxprob:-1", "entropy:0.5:token:token:3"})
    EXPECT_EQ(kit::coded_error_of([&] { exit_rule_named(text); }).substr(0, 7), "2 exit:") << text;
}

}  // namespace
}  // namespace lithe
