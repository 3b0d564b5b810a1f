#include "lithe/probe/tree_scores.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "lithe/base/error.h"
#include "lithe/eval/task_metrics.h"

namespace lithe::probe {

std::vector<double> attention_distances(std::span<const double> weights, int64_t m, Symmetry symmetry) {
  check(int64_t(weights.size()) == m * m, "probe", "a map of ", m, " words must have ", m * m, " weights, got ",
        weights.size());
  std::vector<double> out(weights.size(), 0.0);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = i + 1; j < m; ++j) {
      const double a = weights[size_t(i * m + j)], b = weights[size_t(j * m + i)];
      const double w = symmetry == Symmetry::mean  ? (a + b) / 2
                       : symmetry == Symmetry::max ? std::max(a, b)
                                                   : std::min(a, b);
      out[size_t(i * m + j)] = out[size_t(j * m + i)] = 1 - w;
    }
  return out;
}

std::vector<int32_t> attention_heads(std::span<const double> weights, int64_t m, bool to_head) {
  check(int64_t(weights.size()) == m * m, "probe", "a map of ", m, " words must have ", m * m, " weights, got ",
        weights.size());
  std::vector<double> scores(size_t(m * (m + 1)), 0.0);
  for (int64_t word = 0; word < m; ++word)
    for (int64_t head = 0; head < m; ++head)
      scores[size_t(word * (m + 1) + head + 1)] = weights[size_t(to_head ? word * m + head : head * m + word)];
  return maximum_arborescence(scores, m);
}

std::vector<TreeEdge> edges_of(const DepTree& tree) {
  std::vector<TreeEdge> out;
  for (int32_t word = 1; word <= int32_t(tree.words()); ++word)
    if (const int32_t head = tree.heads[size_t(word - 1)])
      out.push_back({std::min(head, word) - 1, std::max(head, word) - 1});
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<int32_t> tree_depths(const DepTree& tree) {
  std::vector<int32_t> out(tree.heads.size(), 0);
  for (size_t word = 0; word < out.size(); ++word) {
    size_t steps = 0;
    for (int32_t head = tree.heads[word]; head; head = tree.heads[size_t(head - 1)]) {
      ++out[word];
      check(++steps <= out.size(), "probe", "the heads of ", out.size(), " words go in a circle from word ", word + 1);
    }
  }
  return out;
}

bool is_punctuation(const std::string& xpos) {
  static const std::set<std::string> tags = {"''", ",", ".", ":", "``", "-LRB-", "-RRB-"};
  return tags.count(xpos) > 0;
}

EdgeCount common_edges(const std::vector<TreeEdge>& predicted, const std::vector<TreeEdge>& gold) {
  EdgeCount out{.edges = int64_t(gold.size())};
  for (const TreeEdge& e : predicted) out.right += std::binary_search(gold.begin(), gold.end(), e);
  return out;
}

EdgeCount spanning_edges(std::span<const double> predicted, std::span<const double> gold,
                         const std::vector<char>& counts) {
  const size_t m = counts.size();
  check(predicted.size() == m * m && gold.size() == m * m, "probe", "distances of ", m, " words must be ", m * m,
        " numbers, got ", predicted.size(), " and ", gold.size());
  std::vector<size_t> kept;
  for (size_t i = 0; i < m; ++i)
    if (counts[i]) kept.push_back(i);
  const auto tree = [&](std::span<const double> distances) {
    std::vector<double> among(kept.size() * kept.size());
    for (size_t i = 0; i < kept.size(); ++i)
      for (size_t j = 0; j < kept.size(); ++j) among[i * kept.size() + j] = distances[kept[i] * m + kept[j]];
    return minimum_spanning_tree(among, int64_t(kept.size()));
  };
  return common_edges(tree(predicted), tree(gold));
}

std::vector<std::pair<int32_t, int32_t>> direct_edges(const std::vector<TreeEdge>& edges,
                                                      std::span<const double> depths) {
  std::vector<std::pair<int32_t, int32_t>> out;
  for (const auto& [low, high] : edges) {
    if (depths[size_t(low)] <= depths[size_t(high)])
      out.emplace_back(low, high);
    else
      out.emplace_back(high, low);
  }
  return out;
}

int64_t right_heads(const std::vector<TreeEdge>& edges, std::span<const double> depths, const DepTree& gold) {
  int64_t right = 0;
  for (const auto& [head, word] : direct_edges(edges, depths)) right += gold.heads[size_t(word)] == head + 1;
  const auto root = std::min_element(depths.begin(), depths.end()) - depths.begin();
  return right + (gold.words() > 0 && gold.heads[size_t(root)] == 0);
}

void MeanByLength::add(int64_t length, double value) {
  if (length < 5 || length > 50 || std::isnan(value)) return;
  auto& [sum, count] = sums_[length];
  sum += value, ++count;
}

double MeanByLength::mean() const {
  if (sums_.empty()) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (const auto& [length, of] : sums_) sum += of.first / double(of.second);
  return sum / double(sums_.size());
}

std::vector<double> row_correlations(std::span<const double> predicted, std::span<const double> gold, int64_t m) {
  std::vector<double> out;
  for (int64_t i = 0; i < m; ++i)
    out.push_back(spearman(gold.subspan(size_t(i * m), size_t(m)), predicted.subspan(size_t(i * m), size_t(m))));
  return out;
}

std::vector<TreeEdge> chain(int64_t m) {
  std::vector<TreeEdge> out;
  for (int32_t i = 1; i < int32_t(m); ++i) out.push_back({i - 1, i});
  return out;
}

// By its Prüfer sequence.
std::vector<TreeEdge> random_tree(int64_t m, const RandomKey& key) {
  if (m < 2) return {};
  std::vector<int32_t> code, degree(size_t(m), 1);
  for (int64_t i = 0; i + 2 < m; ++i) {
    code.push_back(int32_t(random_below(key, uint64_t(i), uint64_t(m))));
    ++degree[size_t(code.back())];
  }
  std::set<int32_t> leaves;
  for (int32_t i = 0; i < int32_t(m); ++i)
    if (degree[size_t(i)] == 1) leaves.insert(i);
  std::vector<TreeEdge> out;
  for (const int32_t node : code) {
    const int32_t leaf = *leaves.begin();
    leaves.erase(leaves.begin());
    out.push_back({std::min(leaf, node), std::max(leaf, node)});
    if (--degree[size_t(node)] == 1) leaves.insert(node);
  }
  out.push_back({*leaves.begin(), *leaves.rbegin()});
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<TreeEdge> random_projective_tree(int64_t m, const RandomKey& key) {
  std::vector<double> scores(size_t(m * (m + 1)));
  for (size_t i = 0; i < scores.size(); ++i) scores[i] = random_uniform(key, i);
  return edges_of({maximum_projective_tree(scores, m)});
}

}  // namespace lithe::probe
