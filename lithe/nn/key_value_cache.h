// Keys and values of past tokens: the decode state of attention [TB 6.1.7, Fig 6.5].
#pragma once

#include <algorithm>

#include "lithe/kernels/elementwise.h"
#include "lithe/nn/slots.h"

namespace lithe {

// spec: infer.kv_cache | state | what the heads keep of past tokens, one row a token | TB 6.1.7, Fig 6.5
/// Per sequence one tensor of keys and one of values (one for both where they are the same rows).
class KeyValueCache final : public MixerState {
 public:
  KeyValueCache(int64_t sequences, int64_t capacity, int64_t key_cols, int64_t value_cols, bool shared, DType dtype,
                Device device)
      : capacity_(capacity), shared_(shared), lengths_(size_t(sequences), 0) {
    const MemoryScope memory(MemoryClass::decode);
    for (int64_t b = 0; b < sequences; ++b) {
      Tensor keys = empty({capacity, key_cols}, dtype, device);
      entries_.push_back({keys, shared ? keys : empty({capacity, value_cols}, dtype, device)});
    }
  }

  /// Stores the rows of k and v behind what sequence b has.
  void append(const Tensor& k, const Tensor& v, const Sequences& sequences) {
    check(sequences.count() == int64_t(entries_.size()), "cache", "holds ", entries_.size(), " sequences, got rows of ",
          sequences.count());
    for (int64_t b = 0; b < sequences.count(); ++b) {
      int64_t& length = lengths_[size_t(b)];
      const int64_t rows = sequences.length(b);
      check(sequences.past(b) == length, "cache", "sequence ", b, " has ", length, " tokens, the rows continue after ",
            sequences.past(b));
      check(length + rows <= capacity_, "cache", "sequence ", b, " has room for ", capacity_, " tokens, got ",
            length + rows);
      const auto store = [&](const Tensor& to, const Tensor& from) {
        kernels::add(
            {.a = from.slice(sequences.offset(b), sequences.offset(b + 1)), .out = to.slice(length, length + rows)});
      };
      store(entries_[size_t(b)].keys, k);
      if (!shared_) store(entries_[size_t(b)].values, v);
      length += rows;
    }
  }
  const std::vector<KeyValues>& entries() const { return entries_; }
  /// Tokens of the longest sequence.
  int64_t longest() const { return lengths_.empty() ? 0 : *std::max_element(lengths_.begin(), lengths_.end()); }

  int64_t bytes() const override {
    int64_t total = 0;
    for (size_t b = 0; b < entries_.size(); ++b) {
      const KeyValues& e = entries_[b];
      total += lengths_[b] * (e.keys.cols() + (shared_ ? 0 : e.values.cols())) * size_of(e.keys.dtype());
    }
    return total;
  }
  void reorder(const std::vector<int64_t>& from) override {
    std::vector<KeyValues> entries;
    std::vector<int64_t> lengths;
    std::vector<bool> taken(entries_.size());
    for (int64_t i : from) {
      check(i >= 0 && i < int64_t(entries_.size()), "cache", "reorder from sequence ", i, " of ", entries_.size());
      KeyValues e = entries_[size_t(i)];
      if (taken[size_t(i)]) {  // two continuations of one sequence grow apart
        const MemoryScope memory(MemoryClass::decode);
        e.keys = clone(e.keys);
        e.values = shared_ ? e.keys : clone(e.values);
      }
      taken[size_t(i)] = true;
      entries.push_back(e);
      lengths.push_back(lengths_[size_t(i)]);
    }
    entries_ = std::move(entries);
    lengths_ = std::move(lengths);
  }
  void truncate(int64_t sequence, int64_t tokens) override {
    int64_t& length = lengths_[size_t(sequence)];
    check(tokens >= 0 && tokens <= length, "cache", "cannot truncate ", length, " tokens to ", tokens);
    length = tokens;
  }

 private:
  int64_t capacity_;
  bool shared_;
  std::vector<int64_t> lengths_;
  std::vector<KeyValues> entries_;
};

}  // namespace lithe
