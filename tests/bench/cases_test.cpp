// What is timed runs, costs something, and has a name of its own.
#include <gtest/gtest.h>

#include "lithe/bench/bench.h"

namespace lithe::bench {
namespace {

class KernelCases : public testing::TestWithParam<DType> {};

TEST_P(KernelCases, RunAndHaveCosts) {
  const Ceilings ceilings;
  std::set<std::string> names;
  for (const Case& c : kernel_cases({GetParam()}, ceilings)) {
    EXPECT_TRUE(names.insert(c.what.name).second) << c.what.name;
    EXPECT_GT(c.what.cost.bytes, 0) << c.what.name;
    EXPECT_TRUE(is_compute(c.what.compute) && !is_compute(c.what.memory)) << c.what.name;
    c.run();
  }
  EXPECT_GT(names.size(), 20u);
}

INSTANTIATE_TEST_SUITE_P(Types, KernelCases, testing::Values(DType::f32, DType::bf16));

TEST(ModelCases, OtherArchitecturesAreSkippedWithTheReason) {
  Subject s{.name = "new"};
  s.model.architecture = Architecture::encoder_decoder;
  std::vector<std::string> skipped;
  EXPECT_TRUE(model_cases(s, {}, {"train", "decode"}, Ceilings(), skipped).empty());
  ASSERT_EQ(skipped.size(), 1u);
  EXPECT_NE(skipped[0].find("of new: "), std::string::npos) << skipped[0];
  EXPECT_NE(skipped[0].find("not architecture encoder_decoder"), std::string::npos) << skipped[0];
}

TEST(Measure, EverythingHasASampleARoundAndTheFirstVariantAControl) {
  std::vector<std::string> order;
  std::vector<Case> cases;
  for (const char* variant : {"a", "b"}) {
    Measurement m{.group = "train", .name = "x", .variant = variant, .cost = {1, 1}};
    cases.push_back({.what = m, .run = [&order, variant] { order.push_back(variant); }, .runs_at_most = 1});
  }
  cases[0].control = true;
  Result result;
  measure(std::move(cases), Ceilings(), 3, 0.001, false, result);
  EXPECT_TRUE(result.complete);
  ASSERT_EQ(result.measurements.size(), 2u);
  EXPECT_EQ(result.measurements[0].samples.size(), 3u);
  EXPECT_EQ(result.measurements[0].control.size(), 3u);
  EXPECT_EQ(result.measurements[1].samples.size(), 3u);
  EXPECT_TRUE(result.measurements[1].control.empty());
  // The warm-up, then rounds of a, its control and b, each of which begins another one.
  EXPECT_EQ(order, (std::vector<std::string>{"a", "b", "a", "a", "b", "a", "b", "a", "b", "a", "a"}));
  for (const Sample& s : result.measurements[0].samples) {
    EXPECT_GT(s.seconds, 0);
    EXPECT_GT(s.compute, 0);
    EXPECT_GT(s.bandwidth, 0);
  }
}

}  // namespace
}  // namespace lithe::bench
