// Trees from attention, distances and depths, and how they are scored.
#include "lithe/probe/tree_scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "lithe/probe/attention_trees.h"
#include "lithe/probe/structural_probe.h"

namespace lithe::probe {
namespace {

const DepTree kDep4{{2, 0, 2, 3}};  // edges 1-2, 2-3, 3-4
const std::vector<TreeEdge> kEdges4 = {{0, 1}, {1, 2}, {2, 3}};

std::vector<double> random_map(int64_t m, uint64_t seed, bool causal = false) {
  std::vector<double> w(size_t(m * m), 0.0);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < (causal ? i + 1 : m); ++j)
      w[size_t(i * m + j)] = random_uniform({seed}, uint64_t(i * m + j));
  return w;
}

GoldTree gold_of(const DepTree& tree, std::vector<char> counts = {}) {
  if (counts.empty()) counts.assign(tree.heads.size(), 1);
  return {0, tree, tree_distances(tree), tree_depths(tree), edges_of(tree), counts};
}

bool connected(const std::vector<TreeEdge>& edges, int64_t m) {
  std::set<int32_t> seen = {0};
  for (int64_t pass = 0; pass < m; ++pass)
    for (const TreeEdge& e : edges)
      if (seen.count(e.low) || seen.count(e.high)) seen.insert({e.low, e.high});
  return int64_t(seen.size()) == m;
}

// oracle: probe.mst
TEST(TreesFromAttention, AreSpanningTreesAndTheGoldWhereItsEdgesHaveMost) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    const auto m = int64_t(2 + seed % 9);
    const std::vector<double> distances = attention_distances(random_map(m, seed), m, Symmetry::mean);
    const std::vector<TreeEdge> tree = minimum_spanning_tree(distances, m);
    EXPECT_EQ(int64_t(tree.size()), m - 1);
    EXPECT_TRUE(connected(tree, m));
    // Any other tree weighs at least as much, and a monotone change of the distances changes nothing.
    const auto weight = [&](const std::vector<TreeEdge>& edges) {
      double sum = 0;
      for (const TreeEdge& e : edges) sum += distances[size_t(e.low * m + e.high)];
      return sum;
    };
    const std::vector<TreeEdge> other = random_tree(m, {seed, 1});
    EXPECT_TRUE(connected(other, m));
    EXPECT_LE(weight(tree), weight(other) + 1e-12);
    std::vector<double> bent = distances;
    for (double& d : bent) d = std::exp(3 * d) - 5;
    EXPECT_EQ(minimum_spanning_tree(bent, m), tree);
  }
  std::vector<double> gold(16, 0.1);
  for (const TreeEdge& e : kEdges4) gold[size_t(e.low * 4 + e.high)] = gold[size_t(e.high * 4 + e.low)] = 0.3;
  EXPECT_EQ(minimum_spanning_tree(attention_distances(gold, 4, Symmetry::mean), 4), kEdges4);
}

TEST(TreesFromAttention, BecomeSymmetricAsAsked) {
  const std::vector<double> w = {0, 0.2, 0.6, 0};
  EXPECT_DOUBLE_EQ(attention_distances(w, 2, Symmetry::mean)[1], 0.6);
  EXPECT_DOUBLE_EQ(attention_distances(w, 2, Symmetry::max)[1], 0.4);
  EXPECT_DOUBLE_EQ(attention_distances(w, 2, Symmetry::min)[2], 0.8);
  // Of a causal map one direction is 0: the larger one is all there is.
  const std::vector<double> causal = random_map(6, 3, true), distances = attention_distances(causal, 6, Symmetry::max);
  for (int64_t i = 0; i < 6; ++i)
    for (int64_t j = 0; j < i; ++j) EXPECT_DOUBLE_EQ(distances[size_t(i * 6 + j)], 1 - causal[size_t(i * 6 + j)]);
}

TEST(TreesFromAttention, HeadsComeFromBothDirections) {
  std::vector<double> to(16, 0.0), from(16, 0.0);
  for (size_t word = 0; word < 4; ++word)
    if (const auto head = size_t(kDep4.heads[word])) to[word * 4 + head - 1] = from[(head - 1) * 4 + word] = 1;
  EXPECT_EQ(attention_heads(to, 4, true), kDep4.heads);
  EXPECT_EQ(attention_heads(from, 4, false), kDep4.heads);
  HeadCounts counts;
  count_map(counts, to, gold_of(kDep4), {"a", "root", "a", "b"}, Symmetry::max);
  EXPECT_EQ(counts.uuas(), 1);
  EXPECT_EQ(counts.uas(true), 1);
  EXPECT_EQ(counts.relations.at("a").words, 2);
  EXPECT_EQ(counts.relations.at("a").to_head, 2);
  EXPECT_EQ(counts.relations.at("b").to_head, 1);
}

// oracle: probe.structural_depth
TEST(Depths, OfTheRunningExampleAndItsHeadsAgain) {
  EXPECT_EQ(tree_depths(kDep4), (std::vector<int32_t>{1, 0, 1, 2}));
  EXPECT_EQ(edges_of(kDep4), kEdges4);
  const std::vector<double> depths = {1, 0, 1, 2};
  EXPECT_EQ(direct_edges(kEdges4, depths), (std::vector<std::pair<int32_t, int32_t>>{{1, 0}, {1, 2}, {2, 3}}));
  EXPECT_EQ(right_heads(kEdges4, depths, kDep4), 4);
  const GoldTree gold = gold_of(kDep4);
  const std::vector<double> distances(gold.distances.begin(), gold.distances.end());
  EXPECT_EQ(head_score({gold}, trees_of({gold}, {distances}), {depths}), 1);
  EXPECT_EQ(depth_scores({gold}, {depths}).at("root"), 1);
  EXPECT_EQ(depth_scores({gold}, {{0, 1, 2, 3}}).at("root"), 0);
}

TEST(EdgeScores, LeavePunctuationOutAsHewittAndManningDo) {
  // 1 <- 2 -> 3, 2 -> 4 (a full stop), and 5 below the stop: without the stop 5 is nearest to 2.
  const DepTree tree{{2, 0, 2, 2, 4}};
  const GoldTree gold = gold_of(tree, {1, 1, 1, 0, 1});
  const std::vector<double> exact(gold.distances.begin(), gold.distances.end());
  const EdgeCount all = spanning_edges(exact, exact, std::vector<char>(5, 1)),
                  counted = spanning_edges(exact, exact, gold.counts);
  EXPECT_EQ(all.edges, 4);
  EXPECT_EQ(all.right, 4);
  EXPECT_EQ(counted.edges, 3);
  EXPECT_EQ(counted.right, 3);
  std::vector<double> apart(25);
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 5; ++j) apart[size_t(i * 5 + j)] = std::abs(i - j);
  // The chain has 1-2, 2-3, 3-5 of the gold's 1-2, 2-3, 2-5.
  EXPECT_EQ(spanning_edges(apart, exact, gold.counts).right, 2);
  EXPECT_TRUE(is_punctuation("``") && is_punctuation("-LRB-") && !is_punctuation("NN") && !is_punctuation("HYPH"));
}

TEST(EdgeScores, SpearmanIsAMeanOfLengths) {
  MeanByLength mean;
  EXPECT_TRUE(std::isnan(mean.mean()));
  mean.add(4, 1), mean.add(51, 1), mean.add(5, std::nan(""));
  EXPECT_TRUE(std::isnan(mean.mean()));
  mean.add(5, 0), mean.add(5, 1), mean.add(50, 1);
  EXPECT_DOUBLE_EQ(mean.mean(), 0.75);
  const std::vector<double> gold = {0, 1, 2, 1, 0, 2, 2, 1, 0}, reversed = {0, -1, -2, -1, 0, -2, -2, -1, 0};
  for (const double r : row_correlations(gold, gold, 3)) EXPECT_NEAR(r, 1, 1e-12);
  EXPECT_NEAR(row_correlations(reversed, gold, 3)[0], -1, 1e-12);
}

TEST(TrivialTrees, AChainIsRightOnAChainAndRandomTreesAreAsLikelyAsCounted) {
  std::vector<GoldTree> chains;
  DepTree tree;
  for (int32_t w = 0; w < 10; ++w) tree.heads.push_back(w);
  for (int64_t s = 0; s < 400; ++s) chains.push_back(gold_of(tree));
  const auto scores = trivial_trees(chains, 1);
  EXPECT_EQ(scores.at("chain").at("uuas"), 1);
  // An edge is in a random labelled tree over m words with probability 2/m; 3,600 edges are right within 4 deviations.
  EXPECT_NEAR(scores.at("random tree").at("uuas"), 0.2, 4 * std::sqrt(0.2 * 0.8 / 3600));
  EXPECT_GT(scores.at("random projective tree").at("uuas"), 0.2);
  for (const int64_t m : {0, 1, 2, 7}) {
    EXPECT_EQ(int64_t(random_tree(m, {1}).size()), std::max<int64_t>(m - 1, 0));
    EXPECT_EQ(int64_t(random_projective_tree(m, {1}).size()), std::max<int64_t>(m - 1, 0));
  }
}

}  // namespace
}  // namespace lithe::probe
