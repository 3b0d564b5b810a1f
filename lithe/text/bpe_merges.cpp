#include "lithe/text/bpe_merges.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <queue>

#include "lithe/base/error.h"

namespace lithe {
namespace {

constexpr uint32_t no_rank = std::numeric_limits<uint32_t>::max();
constexpr size_t short_word = 24;  // below, scanning all ranks beats a heap

uint64_t key_of(int32_t left, int32_t right) { return uint64_t(uint32_t(left)) << 32 | uint32_t(right); }
uint64_t hash(uint64_t key) { return (key ^ key >> 29) * 0x9E3779B97F4A7C15ull; }

}  // namespace

BpeMerges::BpeMerges(std::span<const Merge> merges, std::span<const uint32_t> ranks) {
  if (merges.empty()) return;
  const size_t size = std::bit_ceil(2 * merges.size() + 2);
  slots_.resize(size);
  shift_ = 64 - std::countr_zero(size);
  for (size_t i = 0; i < merges.size(); ++i) {
    const uint64_t key = key_of(merges[i].left, merges[i].right);
    size_t at = hash(key) >> shift_;
    while (slots_[at].pair != free_pair && slots_[at].pair != key) at = (at + 1) & (size - 1);
    slots_[at] = {key, ranks.empty() ? uint32_t(i) : ranks[i], merges[i].result};
  }
}

const BpeMerges::Slot* BpeMerges::find(int32_t left, int32_t right) const {
  const uint64_t key = key_of(left, right);
  for (size_t at = hash(key) >> shift_;; at = (at + 1) & (slots_.size() - 1)) {
    if (slots_[at].pair == key) return &slots_[at];
    if (slots_[at].pair == free_pair) return nullptr;
  }
}

void BpeMerges::apply(std::vector<int32_t>& word) const {
  if (empty() || word.size() < 2) return;
  if (word.size() <= short_word)
    apply_short(word);
  else
    apply_long(word, [] { return false; });
}

void BpeMerges::apply(std::vector<int32_t>& word, MergeDropout& dropout) const {
  if (!empty() && word.size() > 1) apply_long(word, dropout);
}

void BpeMerges::apply_short(std::vector<int32_t>& word) const {
  std::array<uint32_t, short_word> ranks;  // of the pair (i, i+1)
  std::array<int32_t, short_word> results;
  const auto look = [&](size_t i) {
    const Slot* slot = find(word[i], word[i + 1]);
    ranks[i] = slot ? slot->rank : no_rank;
    results[i] = slot ? slot->result : 0;
  };
  size_t n = word.size();
  for (size_t i = 0; i + 1 < n; ++i) look(i);
  while (n > 1) {
    const size_t best = size_t(std::min_element(ranks.begin(), ranks.begin() + n - 1) - ranks.begin());
    if (ranks[best] == no_rank) break;
    word[best] = results[best];
    --n;
    for (size_t i = best + 1; i < n; ++i) word[i] = word[i + 1];
    for (size_t i = best + 1; i + 1 < n; ++i) ranks[i] = ranks[i + 1], results[i] = results[i + 1];
    if (best > 0) look(best - 1);
    if (best + 1 < n) look(best);
  }
  word.resize(n);
}

template <class Skip>
void BpeMerges::apply_long(std::vector<int32_t>& word, Skip&& skip) const {
  constexpr uint32_t none = std::numeric_limits<uint32_t>::max();
  check(word.size() < none, "tokenizer", "a word of ", word.size(), " bytes is above the limit of ", none - 1);
  const uint32_t n = uint32_t(word.size());
  std::vector<uint32_t> previous(n), next(n);
  for (uint32_t i = 0; i < n; ++i)
    previous[i] = i - 1, next[i] = i + 1 < n ? i + 1 : none;  // previous[0] wraps to none

  struct Candidate {
    uint32_t rank, at;
    int32_t left, right, result;
    bool operator<(const Candidate& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
  };
  std::vector<Candidate> found;
  found.reserve(n);
  const auto candidate = [&](uint32_t at, auto&& take) {
    const uint32_t right = next[at];
    if (right == none) return;
    if (const Slot* slot = find(word[at], word[right]))
      take(Candidate{slot->rank, at, word[at], word[right], slot->result});
  };
  for (uint32_t i = 0; i < n; ++i) candidate(i, [&](const Candidate& c) { found.push_back(c); });
  std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(found));

  constexpr int32_t dead = -1;
  std::vector<Candidate> skipped;  // until the next merge
  while (!queue.empty()) {
    const Candidate c = queue.top();
    queue.pop();
    const uint32_t right = next[c.at];
    if (word[c.at] != c.left || right == none || word[right] != c.right) continue;  // merged away meanwhile
    if (skip()) {
      skipped.push_back(c);
      continue;
    }
    word[c.at] = c.result;
    word[right] = dead;
    next[c.at] = next[right];
    if (next[right] != none) previous[next[right]] = c.at;
    next[right] = none;
    if (previous[c.at] != none) candidate(previous[c.at], [&](const Candidate& more) { queue.push(more); });
    candidate(c.at, [&](const Candidate& more) { queue.push(more); });
    for (const Candidate& again : skipped) queue.push(again);
    skipped.clear();
  }
  std::erase(word, dead);
}

}  // namespace lithe
