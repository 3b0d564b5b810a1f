// What single heads of attention know of trees.
#pragma once

#include <functional>

#include "lithe/probe/structural_probe.h"
#include "lithe/probe/tree_scores.h"

namespace lithe::probe {

/// What a head was seen to do, counted.
struct HeadCounts {
  EdgeCount edges, counted;  // of spanning trees: all words, and without punctuation
  int64_t words = 0;
  int64_t to_head = 0, from_head = 0;  // words whose head is right in the best arborescence, by both directions
  struct Relation {
    int64_t words = 0, to_head = 0, from_head = 0;  // where the head is the word of the greatest weight
  };
  std::map<std::string, Relation> relations;

  double uuas() const { return edges.uuas(); }
  double uas(bool to) const { return words ? double(to ? to_head : from_head) / double(words) : 0; }
};

/// A head by layer and number, from 0; head -1: the mean over the layer's, layer -1: the mean over all.
using HeadName = std::pair<int64_t, int64_t>;
using HeadTable = std::map<HeadName, HeadCounts>;

/// Counts over sentences; layers without a map have no entry.
HeadTable count_heads(const Probed& model, const std::vector<TreeSentence>& sentences,
                      const std::vector<GoldTree>& gold, Symmetry symmetry);
/// One map [m, m] of a sentence more.
void count_map(HeadCounts& counts, std::span<const double> weights, const GoldTree& gold,
               const std::vector<std::string>& relations, Symmetry symmetry);

/// The head that scores highest; the first of equals.
HeadName best_head(const HeadTable& table, const std::function<double(const HeadCounts&)>& score);

/// For each relation the offset (head minus word) of -8 to 8 that is right most often: its share in `chosen_on`, and
/// in `test`.
struct FixedOffset {
  int64_t offset = 0;
  double chosen = 0, test = 0;
};
std::map<std::string, FixedOffset> fixed_offsets(const std::vector<TreeSentence>& chosen_on,
                                                 const std::vector<TreeSentence>& test);

}  // namespace lithe::probe
