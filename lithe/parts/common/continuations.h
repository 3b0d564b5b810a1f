// What all decode states do with the sequences that they hold.
#pragma once

#include "lithe/ops/sequences.h"

namespace lithe {

/// Sequence i goes on from what was sequence from[i] of `count`.
class Continuation {
 public:
  Continuation(const char* owner, const std::vector<int64_t>& from, size_t count) : from_(from), last_(from.size()) {
    std::vector<bool> used(count);
    for (size_t i = from.size(); i-- > 0;) {
      check(from[i] >= 0 && from[i] < int64_t(count), owner, "reorder from sequence ", from[i], " of ", count);
      last_[i] = !used[size_t(from[i])];
      used[size_t(from[i])] = true;
    }
  }
  /// entries[i] becomes what entries[from[i]] was: copy(entry), or the entry itself for the last that has it.
  template <class Entry, class Copy>
  void apply(std::vector<Entry>& entries, Copy copy) const {
    const MemoryScope memory(MemoryClass::decode);
    std::vector<Entry> out;
    out.reserve(from_.size());
    for (size_t i = 0; i < from_.size(); ++i) {
      Entry& entry = entries[size_t(from_[i])];
      out.push_back(last_[i] ? std::move(entry) : copy(entry));
    }
    entries = std::move(out);
  }
  template <class Entry>
  void apply(std::vector<Entry>& entries) const {
    apply(entries, [](const Entry& entry) { return entry; });
  }

 private:
  const std::vector<int64_t>& from_;
  std::vector<bool> last_;
};

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
  /// Sequence i continues what was sequence from[i], in the counts and in `entries`, one list or several.
  template <class... Entries>
  void reorder(const std::vector<int64_t>& from, std::vector<Entries>&... entries) {
    const Continuation to(owner_, from, counts_.size());
    (to.apply(entries), ...);
    to.apply(counts_);
  }
  /// The same of entries that are written to in place: two continuations of one have copy(entry).
  template <class Entry, class Copy>
  void reorder_apart(const std::vector<int64_t>& from, std::vector<Entry>& entries, Copy copy) {
    const Continuation to(owner_, from, counts_.size());
    to.apply(entries, copy);
    to.apply(counts_);
  }

 private:
  const char* owner_;
  std::vector<int64_t> counts_;
};

}  // namespace lithe
