#include "lithe/compare/budget.h"

#include <cmath>

#include "tests/compare/compare_kit.h"

namespace lithe::compare {
namespace {

const std::string kSha = "baseline: mha\nvariants: {mha: {}, sha: {model.mixer.heads: sha}}\n";

double error_of(const VariantResult& r) { return std::abs(r.variant.share.amount / r.variant.share.target - 1); }

TEST(Budget, AWidthIsSolvedForParameters) {
  const kit::CompareKit kit;
  const Comparison c = kit.plan(
      kSha + "budget: {match: parameters, solve: model.ffn.intermediate_size, multiple_of: 1, tolerance: 0.01}\n");
  const Variant &mha = c.variants[0].variant, &sha = c.variants[1].variant;
  EXPECT_EQ(mha.share.target, double(mha.plan.parameters));
  EXPECT_TRUE(mha.share.key.empty());  // the baseline is the budget
  EXPECT_GT(sha.share.to, 32);
  EXPECT_LE(error_of(c.variants[1]), 0.01);
  EXPECT_EQ(sha.share.amount, double(sha.plan.parameters));
  // No neighbouring width is nearer: a swiglu width costs three rows of 16.
  EXPECT_LE(std::abs(sha.share.amount - sha.share.target), 3 * 16 / 2.0);
  // What the budget changed is reported as its doing.
  bool seen = false;
  for (const Change& change : sha.changes)
    if (change.key == "model.ffn.intermediate_size") {
      seen = true;
      EXPECT_TRUE(change.solved);
    }
  EXPECT_TRUE(seen);
}

// A run that grows is the model that it ends with; its steps cost what the model of the time costs.
TEST(Budget, RunsThatGrowCostWhatEachStageCosts) {
  const kit::CompareKit kit;
  const Comparison c = kit.plan(
      "baseline: two\nset: {train.max_steps: 10}\nvariants:\n  one: {model.num_hidden_layers: 1}\n  two: "
      "{model.num_hidden_layers: 2}\n  grown: {model.num_hidden_layers: 1, train.growth: {steps: [4], layers: [2]}}\n"
      "budget: {match: tokens}\n");
  const Variant &one = c.variants[0].variant, &two = c.variants[1].variant, &grown = c.variants[2].variant;
  EXPECT_EQ(grown.plan.parameters, two.plan.parameters);
  EXPECT_GT(two.plan.step.flops, one.plan.step.flops);
  EXPECT_DOUBLE_EQ(grown.training_flops(), 4 * one.plan.step.flops + 6 * two.plan.step.flops);
}

TEST(Budget, FlopsAreMatchedBySteps) {
  const kit::CompareKit kit;
  const Comparison c = kit.plan(kSha + "budget: {match: flops, tolerance: 0.01}\nset: {train.max_steps: 200}\n");
  const Variant& sha = c.variants[1].variant;
  EXPECT_EQ(c.variants[0].variant.steps, 200);
  EXPECT_GT(sha.steps, 200);
  EXPECT_EQ(sha.share.key, "train.max_steps");
  EXPECT_NEAR(sha.plan.step.flops * double(sha.steps), sha.share.target, sha.plan.step.flops / 2);
}

TEST(Budget, AnAmountOfTokensIsForAll) {
  const kit::CompareKit kit;
  for (const VariantResult& r : kit.plan(kSha + "budget: {match: tokens, amount: 6400}\n").variants)
    EXPECT_EQ(r.variant.steps, 100);
}

TEST(Budget, TimeIsMeasuredOnceAndKept) {
  const kit::CompareKit kit;
  const std::string keys = kSha + "budget: {match: time, tolerance: 0.1}\nmeasure: {repeats: 0}\n";
  const Comparison first = kit.run(keys), second = kit.run(keys);
  EXPECT_GT(first.variants[1].variant.steps, 0);
  EXPECT_EQ(first.variants[1].variant.steps, second.variants[1].variant.steps);
  EXPECT_EQ(first.variants[1].runs[0].quality.nll, second.variants[1].runs[0].quality.nll);
}

TEST(Budget, WhatCannotMatchIsRefusedWithTheNearestValues) {
  const kit::CompareKit kit;
  const std::string coarse = kit.refusal(
      kSha + "budget: {match: parameters, solve: model.ffn.intermediate_size, multiple_of: 16, tolerance: 0.001}\n");
  EXPECT_NE(coarse.find("model.ffn.intermediate_size 32 gives"), std::string::npos) << coarse;
  const std::string unsolved = kit.refusal(kSha + "budget: {match: parameters}\n");
  EXPECT_NE(unsolved.find("name a width to solve for"), std::string::npos) << unsolved;
  const std::string wrong = kit.refusal(kSha + "budget: {match: parameters, solve: model.ffn.type}\n");
  EXPECT_NE(wrong.find("not a whole-number key"), std::string::npos) << wrong;
  const std::string little = kit.refusal(kSha + "budget: {match: tokens, amount: 5}\n");
  EXPECT_NE(little.find("budget.amount is 5 tokens, one step takes"), std::string::npos) << little;
  const std::string vast = kit.refusal(kSha + "budget: {match: tokens, amount: 1e30}\n");
  EXPECT_NE(vast.find("steps, more than can be counted"), std::string::npos) << vast;
}

}  // namespace
}  // namespace lithe::compare
