// What is called a difference, on samples whose truth is known.
#include "lithe/bench/differences.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/base/random.h"

namespace lithe::bench {
namespace {

struct Machine {
  double compute = 2e11, bandwidth = 5e10;
};

// `rounds` samples of something that takes `seconds`, times log-normal noise of deviation `noise`.
Measurement measured(double seconds, double noise, uint64_t seed, int rounds = 7, Machine machine = {}) {
  Measurement m{.group = "kernel", .name = "k", .cost = {1e9, 1e9}};
  for (int i = 0; i < rounds; ++i)
    m.samples.push_back(
        {seconds * std::exp(noise * random_normal({.seed = seed}, uint64_t(i))), machine.compute, machine.bandwidth});
  return m;
}

Result of(std::vector<Measurement> measurements) {
  Result r;
  for (size_t i = 0; i < measurements.size(); ++i) {
    if (measurements.size() > 1 && measurements[i].variant.empty()) measurements[i].name += cat(i);
    r.measurements.push_back(std::move(measurements[i]));
  }
  return r;
}

Verdict verdict(const Measurement& now, const Measurement& before, double tolerance = 0.05) {
  const Changes c = changes(of({now}), of({before}), tolerance);
  return c.all.at(0).verdict;
}

TEST(Changes, FindWhatIsBeyondNoiseAndTolerance) {
  EXPECT_EQ(verdict(measured(0.2, 0.01, 1), measured(0.1, 0.01, 2)), Verdict::slower);
  EXPECT_EQ(verdict(measured(0.1, 0.01, 1), measured(0.2, 0.01, 2)), Verdict::faster);
  EXPECT_EQ(verdict(measured(0.1, 0.01, 1), measured(0.1, 0.01, 2)), Verdict::same);
  // 10 % is beyond noise of 1 %, but not beyond a tolerance of 20 %, and not beyond noise of 20 %.
  EXPECT_EQ(verdict(measured(0.11, 0.01, 1), measured(0.1, 0.01, 2), 0), Verdict::slower);
  EXPECT_EQ(verdict(measured(0.11, 0.01, 1), measured(0.1, 0.01, 2), 0.2), Verdict::same);
  EXPECT_EQ(verdict(measured(0.11, 0.2, 1), measured(0.1, 0.2, 2), 0), Verdict::same);
}

TEST(Changes, NoNoiseAtAllIsExact) {
  EXPECT_EQ(verdict(measured(0.1, 0, 1), measured(0.1, 0, 2), 0), Verdict::same);
  EXPECT_EQ(verdict(measured(0.2, 0, 1), measured(0.1, 0, 2), 0), Verdict::slower);
}

TEST(Changes, OneRoundSaysNothing) {
  const Changes c = changes(of({measured(0.9, 0.01, 1, 1)}), of({measured(0.1, 0.01, 2)}), 0.05);
  EXPECT_EQ(c.all.at(0).verdict, Verdict::same);
  EXPECT_EQ(c.all.at(0).timed.low, 0);
  EXPECT_TRUE(std::isinf(c.all.at(0).timed.high));
}

// A machine whose memory runs at half the speed makes everything that is bound by it slower, and nothing worse.
TEST(Changes, AnotherStateOfTheMachineIsNoRegression) {
  const Machine slow{.compute = 2e11, .bandwidth = 2.5e10};
  EXPECT_EQ(verdict(measured(0.2, 0.01, 1, 7, slow), measured(0.1, 0.01, 2)), Verdict::same);
  // Nor when it became faster, and something that memory does not bound did not.
  EXPECT_EQ(verdict(measured(0.1, 0.01, 1), measured(0.1, 0.01, 2, 7, slow)), Verdict::same);
  // A real regression shows in both states.
  EXPECT_EQ(verdict(measured(0.6, 0.01, 1, 7, slow), measured(0.1, 0.01, 2)), Verdict::slower);
}

// One round in which nobody disturbed is enough to see that nothing became slower.
TEST(Changes, DisturbedRoundsAreNoRegression) {
  Measurement disturbed = measured(0.3, 0, 1);
  disturbed.samples[3].seconds = 0.1;
  EXPECT_EQ(verdict(disturbed, measured(0.1, 0.01, 2)), Verdict::same);
}

// Two runs of the same thing, again and again: false alarms must be rare even without tolerance. By Bonferroni one
// in 20 sets of 40 has any; of 100 sets 5 are expected, and more than 16 have a probability below 1e-4.
TEST(Changes, FalseAlarmsAreRare) {
  int alarms = 0;
  for (uint64_t trial = 0; trial < 100; ++trial) {
    std::vector<Measurement> now, before;
    for (uint64_t i = 0; i < 40; ++i) {
      now.push_back(measured(0.1, 0.03, 1000 * trial + 2 * i + 1));
      before.push_back(measured(0.1, 0.03, 1000 * trial + 2 * i + 2));
    }
    const Changes c = changes(of(now), of(before), 0);
    alarms += c.count(Verdict::slower) + c.count(Verdict::faster) > 0;
  }
  EXPECT_LE(alarms, 16);
}

TEST(Changes, CountWhatOnlyOneRunHas) {
  Measurement other = measured(0.1, 0, 1);
  other.name = "other";
  const Changes c = changes(of({measured(0.1, 0, 1)}), of({other}), 0.05);
  EXPECT_TRUE(c.all.empty());
  EXPECT_EQ(c.only_now, 1);
  EXPECT_EQ(c.only_before, 1);
}

// ---- variants of one run

Result two_variants(double seconds, double noise, double control_shift) {
  Measurement a = measured(0.1, noise, 1), b = measured(seconds, noise, 2);
  a.group = b.group = "train";
  a.variant = "a", b.variant = "b";
  a.control = measured(0.1 * control_shift, noise, 3).samples;
  return of({a, b});
}

TEST(Variants, AreComparedInTheSameRounds) {
  const auto found = variant_differences(two_variants(0.05, 0.01, 1));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].first, 0u);
  EXPECT_EQ(found[0].at, 1u);
  EXPECT_NEAR(found[0].ratio.value, 2, 0.05);
  EXPECT_LT(found[0].ratio.low, 2);
  EXPECT_GT(found[0].ratio.high, 2);
  EXPECT_EQ(found[0].verdict, Verdict::faster);
  EXPECT_EQ(variant_differences(two_variants(0.2, 0.01, 1))[0].verdict, Verdict::slower);
}

TEST(Variants, NoWinnerInsideTheNoise) {
  EXPECT_EQ(variant_differences(two_variants(0.1, 0.05, 1))[0].verdict, Verdict::same);
  // As large as what the first differs from itself.
  EXPECT_EQ(variant_differences(two_variants(0.08, 0.001, 0.7))[0].verdict, Verdict::same);
}

// What all rounds share, however much it varies, is no noise of the ratio.
TEST(Variants, RoundsArePaired) {
  Result r = two_variants(0.09, 0.001, 1);
  for (Measurement& m : r.measurements)
    for (auto* samples : {&m.samples, &m.control})
      for (size_t i = 0; i < samples->size(); ++i) (*samples)[i].seconds *= double(1 + i);
  EXPECT_EQ(variant_differences(r)[0].verdict, Verdict::faster);
}

TEST(Obstacles, NameBothValues) {
  Setting a{.cpu = "A", .threads = 2}, b = a;
  EXPECT_TRUE(obstacles(a, b).empty());
  b.threads = 4, b.cpu = "B";
  const auto found = obstacles(a, b);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0], "the processor was 'B', is 'A'");
  EXPECT_EQ(found[1], "the number of threads was '4', is '2'");
}

}  // namespace
}  // namespace lithe::bench
