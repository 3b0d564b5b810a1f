// What all decode states do with the sequences that they hold.
#pragma once

#include "lithe/ops/sequences.h"

namespace lithe {

/// Entry i becomes what entry from[i] was: copy(entry), or for the last that has it the entry itself.
template <class Entry, class Copy>
void continue_from(const char* owner, const std::vector<int64_t>& from, std::vector<Entry>& entries, Copy copy) {
  std::vector<int64_t> uses(entries.size(), 0);
  for (const int64_t i : from) {
    check(i >= 0 && i < int64_t(entries.size()), owner, "reorder from sequence ", i, " of ", entries.size());
    ++uses[size_t(i)];
  }
  const MemoryScope memory(MemoryClass::decode);
  std::vector<Entry> out;
  out.reserve(from.size());
  for (const int64_t i : from) {
    Entry& entry = entries[size_t(i)];
    out.push_back(--uses[size_t(i)] > 0 ? copy(entry) : std::move(entry));
  }
  entries = std::move(out);
}
/// The same with plain copies.
template <class Entry>
void continue_from(const char* owner, const std::vector<int64_t>& from, std::vector<Entry>& entries) {
  continue_from(owner, from, entries, [](const Entry& entry) { return entry; });
}

/// The tokens that each sequence of a state has. `owner` names the state in errors.
class TokenCounts {
 public:
  TokenCounts(const char* owner, int64_t sequences) : owner_(owner), counts_(size_t(sequences), 0) {}
  int64_t operator[](int64_t b) const { return counts_[size_t(b)]; }
  const std::vector<int64_t>& all() const { return counts_; }

  /// Rows of `sequences` are about to follow: they must continue these.
  void check_continues(const Sequences& sequences) const {
    check(sequences.count() == int64_t(counts_.size()), owner_, "the state holds ", counts_.size(),
          " sequences, got rows of ", sequences.count());
    for (int64_t b = 0; b < sequences.count(); ++b)
      check(sequences.past(b) == (*this)[b], owner_, "sequence ", b, " has ", (*this)[b],
            " tokens, the rows continue after ", sequences.past(b));
  }
  void set(std::vector<int64_t> counts) { counts_ = std::move(counts); }
  void add(const Sequences& sequences) {
    for (int64_t b = 0; b < sequences.count(); ++b) counts_[size_t(b)] += sequences.length(b);
  }
  void truncate(int64_t sequence, int64_t tokens) {
    int64_t& count = counts_[size_t(sequence)];
    check(tokens >= 0 && tokens <= count, owner_, "cannot truncate ", count, " tokens to ", tokens);
    count = tokens;
  }
  /// Sequence i continues what was sequence from[i], in the counts and in `entries`: two continuations of one sequence
  /// grow apart, so that all but the last of them have copy(entry).
  template <class Entry, class Copy>
  void reorder(const std::vector<int64_t>& from, std::vector<Entry>& entries, Copy copy) {
    continue_from(owner_, from, entries, copy);
    continue_from(owner_, from, counts_);
  }

 private:
  const char* owner_;
  std::vector<int64_t> counts_;
};

}  // namespace lithe
