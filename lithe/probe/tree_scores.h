// Trees of words from distances and depths, and how near they come to a treebank's.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "lithe/base/random.h"
#include "lithe/base/spanning_tree.h"
#include "lithe/trees/tree.h"

namespace lithe::probe {

/// How a map of attention becomes symmetric: by the mean, the larger or the smaller weight of the two directions.
enum class Symmetry { mean, max, min };

// spec: probe.mst | analysis | trees from attention maps by spanning trees | TB Eq 6.61
/// 1 - weight of each pair of m words [m, m], 0 on the diagonal. Of causal maps one direction is 0: take max.
std::vector<double> attention_distances(std::span<const double> weights, int64_t m, Symmetry symmetry);
/// The heads of the best tree with one root if each word's weight says which word is its head: `weights` [m, m], row i
/// is what word i gives to the others (`to_head`), or what they give to it. The root's arcs all score the same.
std::vector<int32_t> attention_heads(std::span<const double> weights, int64_t m, bool to_head);

/// The edges of a dependency tree, words from 0, sorted; the artificial root has none.
std::vector<TreeEdge> edges_of(const DepTree& tree);
/// Depths of the words: 0 for the root word.
std::vector<int32_t> tree_depths(const DepTree& tree);
/// Tag of the Penn Treebank that Hewitt and Manning's scorer leaves out: '' , . : `` -LRB- -RRB-.
bool is_punctuation(const std::string& xpos);

/// Right edges among those of the treebank.
struct EdgeCount {
  int64_t right = 0, edges = 0;
  double uuas() const { return edges ? double(right) / double(edges) : 0; }
  EdgeCount& operator+=(const EdgeCount& other) {
    right += other.right, edges += other.edges;
    return *this;
  }
};
EdgeCount common_edges(const std::vector<TreeEdge>& predicted, const std::vector<TreeEdge>& gold);
/// Hewitt and Manning's UUAS (N19-1419, structural-probes/reporter.py): spanning trees of the predicted and of the
/// gold distances [m, m] among the words that count (nonzero), edges of equal distance in the order of the words.
EdgeCount spanning_edges(std::span<const double> predicted, std::span<const double> gold,
                         const std::vector<char>& counts);

/// Each edge from its shallower to its deeper word: (head, dependent), words from 0. Of equal depths the first is the
/// head.
std::vector<std::pair<int32_t, int32_t>> direct_edges(const std::vector<TreeEdge>& edges,
                                                      std::span<const double> depths);
/// Words whose head is right: by such an edge, or the root word as the shallowest of all. Of m words.
int64_t right_heads(const std::vector<TreeEdge>& edges, std::span<const double> depths, const DepTree& gold);

/// A mean over sentences of 5 to 50 words as Hewitt and Manning take it: of each length, then of these.
class MeanByLength {
 public:
  /// NaN is passed over, as are other lengths.
  void add(int64_t length, double value);
  double mean() const;  // NaN without values

 private:
  std::map<int64_t, std::pair<double, int64_t>> sums_;
};
/// The mean over words of the correlation of ranks of a row of distances with the gold's [m, m].
std::vector<double> row_correlations(std::span<const double> predicted, std::span<const double> gold, int64_t m);

// What trees are worth without a model.
/// Every word joined to the next: also what every right-branching tree joins.
std::vector<TreeEdge> chain(int64_t m);
/// Any labelled tree over m words, all alike in probability.
std::vector<TreeEdge> random_tree(int64_t m, const RandomKey& key);
/// The best projective tree of uniformly drawn scores.
std::vector<TreeEdge> random_projective_tree(int64_t m, const RandomKey& key);

}  // namespace lithe::probe
