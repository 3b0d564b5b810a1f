// Trees of sentences: dependencies, constituents, spans. Words count from 1, as treebanks number them; 0 is the root.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lithe {

/// heads[w - 1] is the head of word w, 0: the root.
struct DepTree {
  std::vector<int32_t> heads;
  int64_t words() const { return int64_t(heads.size()); }
  bool operator==(const DepTree&) const = default;
};

/// Why heads make no tree, or empty: a head beyond the words, no root, two roots, a cycle. `word`: the word (from 1)
/// that the fault is at.
std::string fault_of(const DepTree& tree, int64_t* word = nullptr);

/// A labelled ordered tree whose leaves are the words, in pre-order. A leaf's label is its word.
struct ConstTree {
  struct Node {
    std::string label;
    int32_t parent = -1;  // -1: the top
    bool leaf = false;
    bool operator==(const Node&) const = default;
  };
  std::vector<Node> nodes;
  std::vector<std::string> words() const;
  bool operator==(const ConstTree&) const = default;
};

/// Where each leaf of a tree stands: how many nodes are above it, and how many of these are above the next leaf, too
/// (0 for the last leaf). The distance of two leaves follows from these numbers.
struct LeafPlaces {
  std::vector<int32_t> depth, common;
};
LeafPlaces leaf_places(const ConstTree& tree);

/// Phrases: the first word (from 0) of each, ascending from 0; a phrase ends where the next begins.
struct Spans {
  std::vector<int32_t> starts;
  /// The span of each of `words` words.
  std::vector<int32_t> of_words(int64_t words) const;
};
/// Base phrases: the words below a node all of whose children stand right above a word; other words alone.
Spans base_phrases(const ConstTree& tree);
/// The subtrees of the root word's children and the root word itself, cut where they are not contiguous.
Spans top_phrases(const DepTree& tree);

/// Words that no path joins.
constexpr int32_t kApart = -1;
// spec: syn.treedist | data | edges between two words in a dependency or constituency tree | TB 6.2.2
/// Edges on the path between words, [m, m], the artificial root left out: kApart between the words of two roots. A head
/// below 0 or beyond the words is of a word that is not here.
std::vector<int32_t> tree_distances(const DepTree& tree);
/// Edges from leaf to leaf by their lowest common ancestor; `collapse_pos`: from the nodes right above them (two less,
/// for unlike leaves).
std::vector<int32_t> tree_distances(const LeafPlaces& leaves, bool collapse_pos = false);

/// The words within `reach` edges of `word` (from 0), itself among them, ascending.
std::vector<int32_t> near_words(const std::vector<std::vector<int32_t>>& neighbours, int32_t word, int64_t reach);
/// A word (from 0) and its distance from another.
using WordAt = std::pair<int32_t, int32_t>;
/// What is known of a tree when `word` (from 0) has been read: the words up to it, itself among them, that the edges of
/// these words to their heads join to it by a path of at most `reach`, ascending. A path may lead over a later word
/// that is the head of earlier ones; that word's own edge is not known.
std::vector<WordAt> known_words(const DepTree& tree, const std::vector<std::vector<int32_t>>& neighbours, int32_t word,
                                int64_t reach);
/// The words (from 0) that an edge joins to each.
std::vector<std::vector<int32_t>> neighbours_of(const DepTree& tree);

}  // namespace lithe
