#include "lithe/text/merge_learner.h"

#include <algorithm>
#include <bit>

#include "lithe/base/error.h"
#include "lithe/base/stop.h"

namespace lithe {
namespace {

constexpr uint32_t none = ~uint32_t(0);

uint64_t hash(int32_t left, int32_t right) {
  const uint64_t key = uint64_t(uint32_t(left)) << 32 | uint32_t(right);
  return (key ^ key >> 29) * 0x9E3779B97F4A7C15ull;
}
}  // namespace

void MergeLearner::add(std::span<const int32_t> word, int64_t count) {
  check(symbol_.size() + word.size() < none, "tokenizer", "the distinct words have above ", none - 1,
        " bytes, the limit for training: give fewer texts");
  const uint32_t index = uint32_t(count_.size());
  count_.push_back(count);
  for (size_t i = 0; i < word.size(); ++i) {
    const uint32_t at = uint32_t(symbol_.size());
    symbol_.push_back(word[i]);
    word_.push_back(index);
    previous_.push_back(i == 0 ? none : at - 1);
    next_.push_back(i + 1 == word.size() ? none : at + 1);
  }
}

void MergeLearner::learn(int64_t merges, int64_t min_frequency) {
  for (uint32_t at = 0; at < symbol_.size(); ++at)
    if (next_[at] != none) change(at, count_[word_[at]]);
  queue_touched();
  while (int64_t(merges_.size()) < merges && !queue_.empty()) {
    check(stop_signal() == 0, "tokenizer", "training was stopped by signal ", stop_signal());
    std::pop_heap(queue_.begin(), queue_.end(), Order{*this});
    const auto [count, p] = queue_.back();
    queue_.pop_back();
    if (count !=
        pairs_[p].count) {  // merges elsewhere took some of its occurrences: back into the queue with what is left
      if (pairs_[p].count >= min_frequency) push(p);
      continue;
    }
    if (count < std::max<int64_t>(min_frequency, 1)) break;
    touched_.clear();
    merge(p);
    queue_touched();
  }
}

/// Of two pairs as frequent, the one whose bytes are lexicographically greater comes first.
bool MergeLearner::before(const Entry& a, const Entry& b) const {
  if (a.first != b.first) return a.first > b.first;
  const Pair &x = pairs_[a.second], &y = pairs_[b.second];
  if (const int order = tokens_[size_t(x.left)].compare(tokens_[size_t(y.left)])) return order > 0;
  return tokens_[size_t(x.right)] > tokens_[size_t(y.right)];
}

void MergeLearner::push(uint32_t pair) {
  queue_.push_back({pairs_[pair].count, pair});
  std::push_heap(queue_.begin(), queue_.end(), Order{*this});
}

size_t MergeLearner::slot_of(int32_t left, int32_t right) const {
  size_t slot = hash(left, right) >> (64 - std::countr_zero(table_.size()));
  while (table_[slot] && (pairs_[table_[slot] - 1].left != left || pairs_[table_[slot] - 1].right != right))
    slot = (slot + 1) & (table_.size() - 1);
  return slot;
}

uint32_t MergeLearner::pair_of(int32_t left, int32_t right) {
  if (table_.size() < 2 * (pairs_.size() + 1)) {
    table_.assign(2 * table_.size(), 0);
    for (uint32_t p = 0; p < pairs_.size(); ++p) table_[slot_of(pairs_[p].left, pairs_[p].right)] = p + 1;
  }
  uint32_t& slot = table_[slot_of(left, right)];
  if (slot == 0) {
    pairs_.push_back({.left = left, .right = right});
    slot = uint32_t(pairs_.size());
  }
  return slot - 1;
}

/// The pair that starts at `at` comes (by > 0) or goes.
void MergeLearner::change(uint32_t at, int64_t by) {
  const uint32_t p = pair_of(symbol_[at], symbol_[next_[at]]);
  pairs_[p].count += by;
  if (by > 0) {
    pairs_[p].at.push_back(at);
    touched_.push_back(p);
  }
}

void MergeLearner::queue_touched() {
  std::sort(touched_.begin(), touched_.end());
  touched_.erase(std::unique(touched_.begin(), touched_.end()), touched_.end());
  for (const uint32_t p : touched_)
    if (pairs_[p].count > 0) push(p);
}

void MergeLearner::merge(uint32_t p) {
  const int32_t left = pairs_[p].left, right = pairs_[p].right;
  // A new token each time: text of one spelling always merges alike, so no two merges spell the same.
  const int32_t result = int32_t(tokens_.size());
  tokens_.push_back(tokens_[size_t(left)] + tokens_[size_t(right)].substr(prefix_));
  merges_.push_back({left, right});

  std::vector<uint32_t> positions = std::move(pairs_[p].at);
  pairs_[p].at.clear();
  std::sort(positions.begin(), positions.end());  // left to right within a word: "aaa" is "aa" "a"
  for (const uint32_t at : positions) {
    const uint32_t second = next_[at];
    if (symbol_[at] != left || second == none || symbol_[second] != right) continue;
    const int64_t count = count_[word_[at]];
    const uint32_t before = previous_[at], after = next_[second];
    if (before != none) change(before, -count);
    change(at, -count);
    if (after != none) change(second, -count);
    symbol_[at] = result;
    symbol_[second] = -1;
    next_[at] = after;
    next_[second] = none;
    if (after != none) previous_[after] = at;
    if (before != none) change(before, count);
    if (after != none) change(at, count);
  }
}

}  // namespace lithe
