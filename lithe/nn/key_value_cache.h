// Keys and values of past tokens: the decode state of attention [TB 6.1.7, Fig 6.5].
#pragma once

#include <algorithm>
#include <numeric>

#include "lithe/kernels/elementwise.h"
#include "lithe/nn/continuations.h"
#include "lithe/nn/slots.h"

namespace lithe {

// spec: infer.kv_cache | state | what the heads keep of past tokens, one row a token | TB 6.1.7, Fig 6.5
/// Per sequence one tensor of keys and one of values (one for both where they are the same rows).
class KeyValueCache final : public MixerState {
 public:
  KeyValueCache(int64_t sequences, int64_t capacity, int64_t key_cols, int64_t value_cols, bool shared, DType dtype,
                Device device)
      : capacity_(capacity), shared_(shared), lengths_("cache", sequences) {
    const MemoryScope memory(MemoryClass::decode);
    for (int64_t b = 0; b < sequences; ++b) {
      Tensor keys = empty({capacity, key_cols}, dtype, device);
      entries_.push_back({keys, shared ? keys : empty({capacity, value_cols}, dtype, device)});
    }
  }

  /// Stores the rows of k and v behind what sequence b has.
  void append(const Tensor& k, const Tensor& v, const Sequences& sequences) {
    lengths_.check_continues(sequences);
    for (int64_t b = 0; b < sequences.count(); ++b) {
      const int64_t length = lengths_[b], rows = sequences.length(b);
      check(length + rows <= capacity_, "cache", "sequence ", b, " has room for ", capacity_, " tokens, got ",
            length + rows);
      const auto store = [&](const Tensor& to, const Tensor& from) {
        kernels::add(
            {.a = from.slice(sequences.offset(b), sequences.offset(b + 1)), .out = to.slice(length, length + rows)});
      };
      store(entries_[size_t(b)].keys, k);
      if (!shared_) store(entries_[size_t(b)].values, v);
    }
    lengths_.add(sequences);
  }
  const std::vector<KeyValues>& entries() const { return entries_; }
  /// Tokens of each sequence.
  const std::vector<int64_t>& lengths() const { return lengths_.all(); }
  /// Tokens of the longest sequence.
  int64_t longest() const {
    return lengths_.all().empty() ? 0 : *std::max_element(lengths_.all().begin(), lengths_.all().end());
  }

  /// Bytes of `cols` numbers of `dtype` a token.
  static int64_t bytes_of(const std::vector<int64_t>& tokens, int64_t cols, DType dtype) {
    return std::accumulate(tokens.begin(), tokens.end(), int64_t(0)) * cols * size_of(dtype);
  }
  int64_t bytes() const override {
    if (entries_.empty()) return 0;
    const KeyValues& e = entries_[0];
    return bytes_of(lengths_.all(), e.keys.cols() + (shared_ ? 0 : e.values.cols()), e.keys.dtype());
  }
  void reorder(const std::vector<int64_t>& from) override {
    lengths_.reorder(from, entries_, [&](const KeyValues& e) {
      const Tensor keys = clone(e.keys);
      return KeyValues{keys, shared_ ? keys : clone(e.values)};
    });
  }
  void truncate(int64_t sequence, int64_t tokens) override { lengths_.truncate(sequence, tokens); }

 private:
  int64_t capacity_;
  bool shared_;
  TokenCounts lengths_;
  std::vector<KeyValues> entries_;
};

}  // namespace lithe
