// Spanning trees of matrices of scores: undirected ones over nodes, and trees of heads over words.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

namespace lithe {

/// An edge between two nodes, from 0: low < high.
struct TreeEdge {
  int32_t low = 0, high = 0;
  auto operator<=>(const TreeEdge&) const = default;
};

/// The spanning tree of least total weight of the complete graph over n nodes: n-1 edges, sorted (none where n is 0
/// or 1). `weights` [n, n]: of each pair the number above the diagonal is read. Of edges of equal weight the first by
/// (low, high) is taken, so that there is one answer, which depends on the order of the weights alone. O(n²) [Prim
/// 1957]. Fails on NaN.
std::vector<TreeEdge> minimum_spanning_tree(std::span<const double> weights, int64_t n);

/// How many words may hang on the root.
enum class Roots { one, any };

/// The head of each of n words, from 1, 0 for the root, so that the scores of the arcs have the greatest sum.
/// `scores` [n, n+1]: row j is of word j+1, column i of word i as its head, column 0 of the root. A word is never its
/// own head, whatever stands there; -inf forbids an arc. O(n²) [Chu and Liu 1965; Edmonds 1967; in the form of Tarjan
/// 1977]. Among trees of equal sums the answer is one of them, always the same. Fails on NaN and on +inf, and where no
/// tree is allowed.
std::vector<int32_t> maximum_arborescence(std::span<const double> scores, int64_t n, Roots roots = Roots::one);

/// The same among projective trees, in which all words between a head and its dependent descend from the head.
/// O(n³) [Eisner 1996].
std::vector<int32_t> maximum_projective_tree(std::span<const double> scores, int64_t n, Roots roots = Roots::one);

}  // namespace lithe
