// Learning merges of symbols by their frequency in words: the core of training BPE and WordPiece.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lithe {

/// Every distinct word is laid out once in one array of symbols with links to its neighbours; each pair knows its count
/// and where it stands, so a merge costs as much as it has occurrences.
class MergeLearner {
 public:
  /// `symbols` are tokens 0, 1, ...; merges append further ones, the left spelling with the right one, less `prefix`
  /// bytes at its start (of "##").
  MergeLearner(std::vector<std::string> symbols, size_t prefix) : tokens_(std::move(symbols)), prefix_(prefix) {}

  /// A word that occurs `count` times. Words are distinct. Fails above 2^32 - 2 symbols in all words.
  void add(std::span<const int32_t> word, int64_t count);
  /// Learns until there are `merges` or no pair occurs `min_frequency` times: always the most frequent pair, of equals
  /// the lexicographically greatest. Once. Polls stop_signal() and fails when one came.
  void learn(int64_t merges, int64_t min_frequency);

  const std::vector<std::string>& tokens() const { return tokens_; }
  const std::vector<std::pair<int32_t, int32_t>>& merges() const { return merges_; }

 private:
  struct Pair {
    int32_t left, right;
    int64_t count = 0;
    std::vector<uint32_t> at;  // positions of the left symbol, some of them stale
  };
  using Entry = std::pair<int64_t, uint32_t>;  // count, pair
  struct Order {
    const MergeLearner& learner;
    bool operator()(const Entry& a, const Entry& b) const { return learner.before(b, a); }
  };

  std::vector<int32_t> symbol_;  // -1: merged into the one before
  std::vector<uint32_t> previous_, next_, word_;
  std::vector<int64_t> count_;  // of words
  std::vector<Pair> pairs_;
  std::vector<uint32_t> table_ = std::vector<uint32_t>(1 << 12);  // open addressing: 1 + pair, 0: free
  std::vector<Entry> queue_;
  std::vector<uint32_t> touched_;  // pairs whose count rose during a merge
  std::vector<std::string> tokens_;
  size_t prefix_;
  std::vector<std::pair<int32_t, int32_t>> merges_;

  bool before(const Entry& a, const Entry& b) const;
  void push(uint32_t pair);
  size_t slot_of(int32_t left, int32_t right) const;
  uint32_t pair_of(int32_t left, int32_t right);
  void change(uint32_t at, int64_t by);
  void queue_touched();
  void merge(uint32_t pair);
};

}  // namespace lithe
