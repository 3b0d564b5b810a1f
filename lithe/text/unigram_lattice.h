// The segmentations of a text into pieces with probabilities: paths through a lattice, Kudo 2018, arXiv:1804.10959.
#pragma once

#include <cstdint>
#include <vector>

#include "lithe/base/random.h"
#include "lithe/text/segmentation.h"

namespace lithe {

/// Paths from byte 0 to byte `length`; an arc is a piece.
class UnigramLattice {
 public:
  struct Arc {
    uint32_t begin, end;
    int32_t id;
    double log_probability;
  };

  /// `arcs` in the order of their ends, each with begin < end <= length.
  UnigramLattice(uint32_t length, std::vector<Arc> arcs);
  /// True when some path reaches the end.
  bool connected() const { return reached_[length_]; }

  /// Arcs of one path, drawn as `how` says (its dropout is not looked at): forward filtering and backward sampling, or
  /// a choice among the best. A pure function of its arguments. Of paths as good the one whose last differing piece is
  /// longer. Needs connected().
  std::vector<Arc> draw(const SegmentationSampling& how, const RandomKey& key) const;

 private:
  uint32_t length_;
  std::vector<Arc> arcs_;
  std::vector<uint32_t> first_;  // of the arcs that end at a byte; one more for the end
  std::vector<bool> reached_;    // by byte: some path leads there

  struct Path {
    double score;
    uint32_t arc;   // the last
    uint32_t rank;  // of the path before it, among those at the arc's begin
  };
  std::vector<Arc> draw_from_all(double alpha, double length_penalty, const RandomKey& key) const;
  std::vector<std::vector<Path>> best_paths(size_t count, double length_penalty) const;
};

}  // namespace lithe
