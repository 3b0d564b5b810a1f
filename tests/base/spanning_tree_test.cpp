#include "lithe/base/spanning_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "lithe/base/error.h"
#include "lithe/base/random.h"

namespace lithe {
namespace {

constexpr double kForbidden = -std::numeric_limits<double>::infinity();

// Whether heads (0: the root) make a tree.
bool is_tree(const std::vector<int32_t>& heads, Roots roots) {
  if (roots == Roots::one && std::count(heads.begin(), heads.end(), 0) != 1) return false;
  for (size_t word = 1; word <= heads.size(); ++word) {
    size_t at = word, steps = 0;
    while (at && steps++ <= heads.size()) at = size_t(heads[at - 1]);
    if (at) return false;
  }
  return true;
}

bool is_projective(const std::vector<int32_t>& heads) {
  for (size_t word = 1; word <= heads.size(); ++word) {
    const auto head = size_t(heads[word - 1]);
    for (size_t inside = std::min(word, head) + 1; inside < std::max(word, head); ++inside) {
      size_t at = inside;
      while (at && at != head) at = size_t(heads[at - 1]);
      if (at != head) return false;
    }
  }
  return true;
}

double sum_of(const std::vector<double>& scores, const std::vector<int32_t>& heads) {
  double sum = 0;
  for (size_t word = 0; word < heads.size(); ++word) sum += scores[word * (heads.size() + 1) + size_t(heads[word])];
  return sum;
}

// The best sum over every assignment of heads.
double best_by_trying_all(const std::vector<double>& scores, int64_t n, Roots roots, bool projective) {
  double best = kForbidden;
  std::vector<int32_t> heads(size_t(n), 0);
  const std::function<void(size_t)> assign = [&](size_t word) {
    if (word == heads.size()) {
      if (is_tree(heads, roots) && (!projective || is_projective(heads))) best = std::max(best, sum_of(scores, heads));
      return;
    }
    for (int32_t head = 0; head <= n; ++head)
      if (head != int32_t(word) + 1) heads[word] = head, assign(word + 1);
  };
  assign(0);
  return best;
}

std::vector<double> random_scores(int64_t n, uint64_t seed, int64_t kinds, double forbidden) {
  std::vector<double> out(size_t(n * (n + 1)));
  const RandomKey key{seed, uint64_t(n)}, other{seed, uint64_t(n), 1};
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = random_uniform(other, i) < forbidden ? kForbidden
             : kinds                              ? double(random_below(key, i, uint64_t(kinds)))
                                                  : random_normal(key, i);
  return out;
}

class TreesOfHeads : public testing::TestWithParam<std::tuple<Roots, bool>> {};

TEST_P(TreesOfHeads, AreTheBestOfAllTrees) {
  const auto [roots, projective] = GetParam();
  const auto tree = projective ? maximum_projective_tree : maximum_arborescence;
  EXPECT_TRUE(tree({}, 0, roots).empty());
  for (int64_t n = 1; n <= 5; ++n)
    for (uint64_t seed = 0; seed < (n == 5 ? 40 : 120); ++seed) {
      const std::vector<double> scores =
          random_scores(n, seed, seed % 3 == 0 ? 3 : 0, seed % 4 == 1 ? 0.35 : 0.0);  // ties; forbidden arcs
      const double best = best_by_trying_all(scores, n, roots, projective);
      if (best == kForbidden) {
        EXPECT_THROW(tree(scores, n, roots), Error);
        continue;
      }
      const std::vector<int32_t> heads = tree(scores, n, roots);
      ASSERT_EQ(int64_t(heads.size()), n);
      EXPECT_TRUE(is_tree(heads, roots)) << n << " words, seed " << seed;
      EXPECT_TRUE(!projective || is_projective(heads));
      EXPECT_NEAR(sum_of(scores, heads), best, 1e-12 * double(n)) << n << " words, seed " << seed;
      EXPECT_EQ(heads, tree(scores, n, roots));
    }
}

INSTANTIATE_TEST_SUITE_P(All, TreesOfHeads, testing::Combine(testing::Values(Roots::one, Roots::any), testing::Bool()));

TEST(TreesOfHeads, OneRootIsOneEvenWhereSeveralScoreFarHigher) {
  const int64_t n = 40;
  std::vector<double> scores = random_scores(n, 7, 0, 0);
  for (int64_t word = 0; word < n; ++word) scores[size_t(word * (n + 1))] += 1e6;
  for (const auto tree : {maximum_arborescence, maximum_projective_tree}) {
    const std::vector<int32_t> heads = tree(scores, n, Roots::one);
    EXPECT_TRUE(is_tree(heads, Roots::one));
    const std::vector<int32_t> several = tree(scores, n, Roots::any);
    EXPECT_EQ(std::count(several.begin(), several.end(), 0), n);
  }
}

TEST(TreesOfHeads, GoldHeadsThatScoreHighestComeBack) {
  const std::vector<int32_t> gold = {3, 1, 0, 6, 4, 3, 3};
  std::vector<double> scores(gold.size() * (gold.size() + 1), 0.0);
  for (size_t word = 0; word < gold.size(); ++word) scores[word * (gold.size() + 1) + size_t(gold[word])] = 1;
  EXPECT_EQ(maximum_arborescence(scores, int64_t(gold.size())), gold);
  EXPECT_EQ(maximum_projective_tree(scores, int64_t(gold.size())), gold);
}

TEST(TreesOfHeads, CrossingArcsAreForTheArborescenceAlone) {
  const std::vector<int32_t> gold = {3, 4, 0, 3};  // 1-3 and 2-4 cross
  std::vector<double> scores(20, 0.0);
  for (size_t word = 0; word < 4; ++word) scores[word * 5 + size_t(gold[word])] = 1;
  EXPECT_EQ(maximum_arborescence(scores, 4), gold);
  EXPECT_TRUE(is_projective(maximum_projective_tree(scores, 4)));
}

TEST(TreesOfHeads, RefuseWhatIsNoScore) {
  EXPECT_THROW(maximum_arborescence(std::vector<double>(5, 0.0), 2), Error);
  EXPECT_THROW(maximum_projective_tree(std::vector<double>(6, std::nan("")), 2), Error);
  EXPECT_THROW(maximum_arborescence(std::vector<double>(6, std::numeric_limits<double>::infinity()), 2), Error);
}

// Every labelled tree over n nodes, by its Prüfer sequence.
std::vector<std::vector<TreeEdge>> all_trees(int32_t n) {
  std::vector<std::vector<TreeEdge>> out;
  std::vector<int32_t> code(size_t(n - 2), 0);
  while (true) {
    std::vector<int32_t> degree(size_t(n), 1);
    for (const int32_t node : code) ++degree[size_t(node)];
    std::vector<TreeEdge> edges;
    for (const int32_t node : code)
      for (int32_t leaf = 0; leaf < n; ++leaf)
        if (degree[size_t(leaf)] == 1) {
          edges.push_back({std::min(leaf, node), std::max(leaf, node)});
          --degree[size_t(leaf)], --degree[size_t(node)];
          break;
        }
    std::vector<int32_t> last;
    for (int32_t node = 0; node < n; ++node)
      if (degree[size_t(node)] == 1) last.push_back(node);
    edges.push_back({last[0], last[1]});
    std::sort(edges.begin(), edges.end());
    out.push_back(edges);
    size_t digit = 0;
    while (digit < code.size() && ++code[digit] == n) code[digit++] = 0;
    if (digit == code.size()) return out;
  }
}

double weight_of(const std::vector<double>& weights, const std::vector<TreeEdge>& edges, int64_t n) {
  double sum = 0;
  for (const TreeEdge& e : edges) sum += weights[size_t(e.low * n + e.high)];
  return sum;
}

// Kruskal's tree: edges in the order of (weight, low, high), each that joins two components.
std::vector<TreeEdge> kruskal(const std::vector<double>& weights, int32_t n) {
  std::vector<TreeEdge> edges, out;
  for (int32_t a = 0; a < n; ++a)
    for (int32_t b = a + 1; b < n; ++b) edges.push_back({a, b});
  std::stable_sort(edges.begin(), edges.end(), [&](const TreeEdge& x, const TreeEdge& y) {
    return weights[size_t(x.low * n + x.high)] < weights[size_t(y.low * n + y.high)];
  });
  std::vector<int32_t> component(size_t(n), 0);
  std::iota(component.begin(), component.end(), 0);
  for (const TreeEdge& e : edges) {
    const int32_t from = component[size_t(e.high)], to = component[size_t(e.low)];
    if (from == to) continue;
    for (int32_t& c : component)
      if (c == from) c = to;
    out.push_back(e);
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<double> random_weights(int64_t n, uint64_t seed, uint64_t kinds) {
  std::vector<double> out(size_t(n * n));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = kinds ? double(random_below({seed}, i, kinds)) : random_normal({seed}, i);
  return out;
}

TEST(MinimumSpanningTree, IsTheLightestOfAllSixteenTreesOfFourNodesAndOfLargerOnes) {
  EXPECT_EQ(all_trees(4).size(), 16u);
  EXPECT_EQ(all_trees(5).size(), 125u);
  for (const int32_t n : {3, 4, 5})
    for (uint64_t seed = 0; seed < 50; ++seed) {
      const std::vector<double> weights = random_weights(n, seed, 0);
      const std::vector<TreeEdge> tree = minimum_spanning_tree(weights, n);
      double best = std::numeric_limits<double>::infinity();
      for (const auto& other : all_trees(n)) best = std::min(best, weight_of(weights, other, n));
      EXPECT_DOUBLE_EQ(weight_of(weights, tree, n), best);
    }
}

TEST(MinimumSpanningTree, TakesEqualEdgesInTheirOrderAsKruskalDoes) {
  EXPECT_EQ(minimum_spanning_tree(std::vector<double>(16, 0.5), 4), (std::vector<TreeEdge>{{0, 1}, {0, 2}, {0, 3}}));
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const auto n = int32_t(2 + seed % 12);
    const std::vector<double> weights = random_weights(n, seed, 1 + seed % 5);
    EXPECT_EQ(minimum_spanning_tree(weights, n), kruskal(weights, n)) << n << " nodes, seed " << seed;
  }
}

TEST(MinimumSpanningTree, OfFewNodesAndOfWrongWeights) {
  EXPECT_TRUE(minimum_spanning_tree({}, 0).empty());
  EXPECT_TRUE(minimum_spanning_tree(std::vector<double>{0.0}, 1).empty());
  EXPECT_THROW(minimum_spanning_tree(std::vector<double>(3, 0.0), 2), Error);
  EXPECT_THROW(minimum_spanning_tree(std::vector<double>(4, std::nan("")), 2), Error);
}

}  // namespace
}  // namespace lithe
