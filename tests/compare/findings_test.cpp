// What is concluded from timings that are known.
#include <cmath>

#include "lithe/compare/fronts.h"
#include "tests/compare/compare_kit.h"

namespace lithe::compare {
namespace {

// Two variants (and the control) at prompts of 8, 32 and 128 tokens. The second takes 2, 1 and 1/2 of the first's
// time in prefill, and `decode` times its time in decoding; every value jitters by at most `jitter`, relatively.
Comparison timed(const kit::CompareKit& kit, double decode, double jitter) {
  Comparison c = kit.plan(
      "baseline: a\nvariants: {a: {}, b: {}}\n"
      "measure: {prompt_lengths: [8, 32, 128], batch_sizes: [1], repeats: 6}\n");
  c.speed.cells = {{8, 1}, {32, 1}, {128, 1}};
  c.speed.costs.assign(3, std::vector<CellCost>(3));
  const double base[] = {1, 4, 16}, ratio[] = {2, 1, 0.5};
  uint64_t element = 0;
  const auto noisy = [&](double seconds) {
    return seconds * std::exp(jitter * (2 * random_uniform({.seed = 17}, element++) - 1));
  };
  for (int round = 0; round < 6; ++round) {
    std::vector<Timing> timings;
    for (int who : {0, 1, 2}) {
      Timing t;
      t.train_step = noisy(1);
      for (int k = 0; k < 3; ++k) {
        t.prefill.push_back(noisy(base[k] * (who == 1 ? ratio[k] : 1)));
        t.decode_token.push_back(noisy(who == 1 ? decode : 1));
      }
      timings.push_back(std::move(t));
    }
    c.speed.rounds.push_back(std::move(timings));
  }
  find(c);
  return c;
}

TEST(Findings, WhereOneOvertakesAnother) {
  const kit::CompareKit kit;
  const Comparison c = timed(kit, 1, 0.01);
  ASSERT_EQ(c.crossovers.size(), 1u);
  const Crossover& x = c.crossovers[0];
  EXPECT_EQ(c.name(x.winner), "b");
  EXPECT_EQ(x.what, "prefill");
  EXPECT_EQ(x.along, "context length");
  EXPECT_EQ(x.fixed, 1);
  // Times jitter by 1 %; the curves' ratio is 2 (n / 8)^(-1/2): 2 % of it move the crossing by 4 %.
  EXPECT_NEAR(x.at, 32, 0.04 * 32);
  int64_t beyond = 0;
  for (const SpeedDifference& d : c.speeds) beyond += d.beyond;
  EXPECT_EQ(beyond, 2);  // prefill at 8 and at 128, and nothing else
}

TEST(Findings, FrontsAreTimedWhereNoVariantRefuses) {
  const kit::CompareKit kit;
  Comparison c = timed(kit, 0.5, 0);
  for (VariantResult& v : c.variants) v.score = 10;
  const auto costs = [&](const std::string& of) {
    for (const Front& front : fronts_of(c))
      if (front.cost == of) return front.costs;
    return std::vector<double>();
  };
  const std::vector<double> longest{16, 8}, shortest{1, 2}, none;
  EXPECT_EQ(costs("time of reading a prompt"), longest);
  c.speed.costs[1][2].refused = "the model has 64 positions";
  EXPECT_EQ(costs("time of reading a prompt"), none);  // at 32 tokens both take as long
  c.speed.costs[0][1].refused = "the model has 16 positions";
  EXPECT_EQ(costs("time of reading a prompt"), shortest);
  EXPECT_EQ(costs("time of a decoded token"), (std::vector<double>{1, 0.5}));
  c.speed.costs[1][0].refused = "the model has 4 positions";
  EXPECT_EQ(costs("time of reading a prompt"), none);
  EXPECT_EQ(costs("time of a decoded token"), none);
}

TEST(Findings, ASmallDifferenceIsFoundInSmallNoiseOnly) {
  const kit::CompareKit kit;
  const auto decodes = [&](double jitter) {
    int64_t beyond = 0;
    for (const SpeedDifference& d : timed(kit, 1.1, jitter).speeds)
      if (d.what == "decode" && d.beyond) {
        EXPECT_NEAR(d.ratio, 1.1, 0.02);
        ++beyond;
      }
    return beyond;
  };
  EXPECT_EQ(decodes(0.005), 3);
  EXPECT_EQ(decodes(0.5), 0);
}

TEST(Findings, ADecodeStateThatStaysSmallOvertakesAtAnExactLength) {
  const kit::CompareKit kit;
  const Comparison c =
      kit.plan("baseline: a\nvariants: {a: {}, b: {model.mixer: {type: approx, num_attention_heads: 4}}}\n");
  ASSERT_EQ(c.crossovers.size(), 1u);
  const Crossover& x = c.crossovers[0];
  EXPECT_TRUE(x.exact);
  EXPECT_EQ(c.name(x.winner), "b");
  // d = 16, h = 4, E = 4: h (1 + E + E^2)(E + 1) = 420 scalars against 2 T d = 32 T: from T = 14 on.
  EXPECT_EQ(x.at, 14);
}

}  // namespace
}  // namespace lithe::compare
