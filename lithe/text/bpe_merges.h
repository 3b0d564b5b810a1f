// Applying merges: the core of byte-pair encoding.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lithe/base/random.h"

namespace lithe {

/// The pair (left, right) becomes result.
struct Merge {
  int32_t left, right, result;
};

/// Decides at random which merges are passed over: BPE-dropout, Provilkov et al. 2020, arXiv:1910.13267. The decisions
/// are those of the key's stream, one after the other.
struct MergeDropout {
  double probability = 0;
  RandomKey key;
  uint64_t next = 0;  // element of the stream
  bool operator()() { return random_uniform(key, next++) < probability; }
};

/// Merges by rank, lowest first.
class BpeMerges {
 public:
  BpeMerges() = default;
  /// Ids must not be negative. `ranks`, one a merge; empty: their places in the list. Of two merges of one pair the
  /// later counts, as in Hugging Face's tokenizers.
  explicit BpeMerges(std::span<const Merge> merges, std::span<const uint32_t> ranks = {});
  bool empty() const { return slots_.empty(); }

  /// Merges the symbols of a word until no merge applies: always the pair of lowest rank, the leftmost of equals.
  /// O(n log n).
  void apply(std::vector<int32_t>& word) const;
  /// The same with dropout: before each merge every one that applies is passed over with the given probability; the
  /// word is done when all are.
  void apply(std::vector<int32_t>& word, MergeDropout& dropout) const;

 private:
  struct Slot {
    uint64_t pair = free_pair;
    uint32_t rank = 0;
    int32_t result = 0;
  };
  static constexpr uint64_t free_pair = ~uint64_t(0);
  std::vector<Slot> slots_;  // open addressing
  int shift_ = 64;           // from the hash to a slot

  const Slot* find(int32_t left, int32_t right) const;
  void apply_short(std::vector<int32_t>& word) const;
  template <class Skip>
  void apply_long(std::vector<int32_t>& word, Skip&& skip) const;
};

}  // namespace lithe
