// Losses of structural probes, and probes trained on rows in which a tree was planted.
#include "lithe/probe/structural.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/linear.h"
#include "lithe/probe/structural_probe.h"
#include "lithe/probe/tree_scores.h"
#include "tests/support/model_kit.h"

namespace lithe::probe {
namespace {

const std::vector<int32_t> kDistances = {0, 1, 2, 3, 1, 0, 1, 2, 2, 1, 0, 1, 3, 2, 1, 0}, kDepths = {1, 0, 1, 2};
const std::vector<double> kRows = {0, 0, 0, 1, 0, 0, 1, 1, 0, 1, 1, 1};  // of DEP4, one fresh coordinate an edge

Tensor rows_of(const std::vector<double>& x, int64_t k) {
  return tensor_of({int64_t(x.size()) / k, k}, std::span<const double>(x));
}
double distance_loss_of(const Tensor& b) {
  return value_at(distance_loss(Var(b), Sequences::single(4), {kDistances}).value(), 0);
}

// oracle: probe.structural_distance
TEST(StructuralDistance, SquaredDistancesOfTheExampleAreItsTree) {
  const Tensor h = rows_of(kRows, 3);
  const std::vector<double> d = squared_distances(h);
  EXPECT_EQ(d, std::vector<double>(kDistances.begin(), kDistances.end()));
  EXPECT_EQ(distance_loss_of(h), 0);
  EXPECT_EQ(minimum_spanning_tree(d, 4), (std::vector<TreeEdge>{{0, 1}, {1, 2}, {2, 3}}));
  // Distances without the square do not fit.
  double apart = 0;
  for (size_t i = 0; i < d.size(); ++i) apart += std::abs(std::sqrt(d[i]) - double(kDistances[i]));
  EXPECT_GT(apart, 1);
}

TEST(StructuralDistance, IsBlindToRotationsAndKnowsNothingWithoutAMap) {
  const double c = std::cos(0.7), s = std::sin(0.7);
  const std::vector<double> turn = {c, s, 0, -s, c, 0, 0, 0, 1};
  std::vector<double> h;
  for (size_t i = 0; i < 12; ++i) h.push_back(random_normal({5}, i));
  const Var x(rows_of(h, 3));
  EXPECT_NEAR(distance_loss_of(x.value()), distance_loss_of(linear(x, Var(rows_of(turn, 3))).value()), 1e-12);
  double sum = 0;
  for (const int32_t w : kDistances) sum += w;
  EXPECT_NEAR(distance_loss_of(rows_of(std::vector<double>(12, 0.0), 3)), sum / 16, 1e-12);
}

TEST(StructuralDistance, LossesAreMeansOverSentencesAndHaveTheirGradients) {
  const std::vector<int32_t> two = {0, 1, 1, 0}, two_depths = {0, 1};
  const Sequences sentences({0, 4, 6});
  std::vector<double> h;
  for (size_t i = 0; i < 18; ++i) h.push_back(random_normal({9}, i));
  const Tensor all = rows_of(h, 3);
  const double both = value_at(distance_loss(Var(all), sentences, {kDistances, two}).value(), 0),
               second = value_at(distance_loss(Var(all.slice(4, 6)), Sequences::single(2), {two}).value(), 0);
  EXPECT_NEAR(both, (distance_loss_of(all.slice(0, 4)) + second) / 2, 1e-12);
  Parameters none;
  std::string where;
  const auto distance = [&](const std::vector<Var>& in) {
    return std::vector<Var>{distance_loss(in[0], sentences, {kDistances, two})};
  };
  const auto depth = [&](const std::vector<Var>& in) {
    return std::vector<Var>{depth_loss(in[0], sentences, {kDepths, two_depths})};
  };
  EXPECT_LE(kit::gradient_error(none, distance, {all}, &where), 1e-6) << where;
  EXPECT_LE(kit::gradient_error(none, depth, {all}, &where), 1e-6) << where;
  EXPECT_THROW(distance_loss(Var(all), sentences, {kDistances}), Error);
  EXPECT_THROW(distance_loss(Var(all), sentences, {two, two}), Error);
}

TEST(StructuralDepth, SquaredLengthsOfSuitableRowsAreTheDepths) {
  const Tensor h = rows_of({1, 0, 0, 0, 0, 1, 1, 1}, 2);
  EXPECT_EQ(squared_lengths(h), (std::vector<double>{1, 0, 1, 2}));
  EXPECT_EQ(value_at(depth_loss(Var(h), Sequences::single(4), {kDepths}).value(), 0), 0);
}

// Random trees whose words have one coordinate for every edge above them, hidden by a map; a second layer is constant.
struct Planted {
  WordRows rows;
  std::vector<GoldTree> gold;
};

Planted planted(int64_t sentences, uint64_t seed) {
  constexpr int64_t kEdges = 8, kWidth = 20;
  Planted out;
  std::vector<float> numbers;
  int64_t first = 0;
  for (int64_t s = 0; s < sentences; ++s) {
    const auto m = int64_t(5 + random_below({seed, uint64_t(s)}, 0, 4));
    DepTree tree{{0}};
    for (int64_t w = 1; w < m; ++w)
      tree.heads.push_back(int32_t(1 + random_below({seed, uint64_t(s), 1}, uint64_t(w), uint64_t(w))));
    for (int64_t w = 0; w < m; ++w) {
      std::vector<double> x(size_t(kEdges), 0.0);
      for (auto at = int32_t(w); tree.heads[size_t(at)]; at = tree.heads[size_t(at)] - 1) x[size_t(at)] = 1;
      for (int64_t c = 0; c < kWidth; ++c) {
        double sum = 0;
        for (int64_t e = 0; e < kEdges; ++e) sum += x[size_t(e)] * random_normal({77}, uint64_t(e * kWidth + c));
        numbers.push_back(float(sum));
      }
    }
    out.gold.push_back(
        {first, tree, tree_distances(tree), tree_depths(tree), edges_of(tree), std::vector<char>(size_t(m), 1)});
    first += m;
  }
  out.rows = WordRows({numbers, std::vector<float>(numbers.size(), 0.5f)}, kWidth);
  return out;
}

std::vector<std::vector<double>> said(const StructuralProbe& probe, const Planted& data) {
  std::vector<std::vector<double>> out;
  for (const GoldTree& gold : data.gold) out.push_back(probe.predict(data.rows, gold.first, gold.words()));
  return out;
}

TEST(StructuralProbe, FindsPlantedTreesAndNothingWhereThereIsNothing) {
  const Planted train = planted(300, 1), test = planted(60, 2);
  const StructuralConfig config{.epochs = 60, .learning_rate = 1e-2};
  const StructuralProbe probe(config, train.rows, train.gold, {0});
  const Scores scores = distance_scores(test.gold, said(probe, test));
  EXPECT_EQ(scores.at("uuas"), 1);
  EXPECT_EQ(scores.at("uuas_no_punctuation"), 1);
  EXPECT_GT(scores.at("spearman"), 0.95);
  const Scores nothing = distance_scores(test.gold, said(StructuralProbe(config, train.rows, train.gold, {1}), test));
  EXPECT_LT(nothing.at("uuas"), 0.6);
  StructuralConfig of_depth = config;
  of_depth.depth = true;
  const StructuralProbe depths(of_depth, train.rows, train.gold, {0});
  EXPECT_GT(depth_scores(test.gold, said(depths, test)).at("root"), 0.95);
  EXPECT_GT(head_score(test.gold, trees_of(test.gold, said(probe, test)), said(depths, test)), 0.95);
}

TEST(StructuralProbe, RepeatsToTheBitAndMixesLayers) {
  const Planted train = planted(40, 3);
  const StructuralConfig config{.rank = 6, .epochs = 2};
  const StructuralProbe one(config, train.rows, train.gold, {0}), again(config, train.rows, train.gold, {0});
  EXPECT_EQ(said(one, train), said(again, train));
  EXPECT_TRUE(one.mixture().empty());
  const StructuralProbe mixed({.epochs = 20, .learning_rate = 1e-2}, train.rows, train.gold, {0, 1});
  ASSERT_EQ(mixed.mixture().size(), 2u);
  EXPECT_NEAR(mixed.mixture()[0] + mixed.mixture()[1], 1, 1e-6);
}

}  // namespace
}  // namespace lithe::probe
