// Keys and values of the rows that cross-attention reads: constant while the target is decoded.
#pragma once

#include <numeric>

#include "lithe/nn/slots.h"
#include "lithe/parts/common/continuations.h"

namespace lithe {

// spec: mixer.cross | state | keys and values of the source, computed once, shared by beams | TB Eq 6.39, 6.41-6.44
/// Continuations of one sequence share its rows, which nobody writes.
class SourceCache final : public State {
 public:
  SourceCache(int64_t sequences, int64_t numbers_a_token) : entries_(size_t(sequences)), numbers_(numbers_a_token) {}

  /// k and v [S, columns] of all sequences, the keys of each as `keys` says; they may be one tensor. A sequence whose
  /// source has no tokens keeps what it has.
  void fill(const Tensor& k, const Tensor& v, const Sequences& keys, const Sequences& source) {
    check(source.count() == int64_t(entries_.size()), "cross-attention", "the state holds ", entries_.size(),
          " sequences, got sources of ", source.count());
    tokens_.resize(entries_.size(), 0);
    for (int64_t b = 0; b < source.count(); ++b) {
      if (source.length(b) == 0) continue;
      const auto rows = [&](const Tensor& of) { return of.slice(keys.offset(b), keys.offset(b + 1)); };
      entries_[size_t(b)] = {rows(k), rows(v)};
      tokens_[size_t(b)] = keys.length(b);
    }
    dtype_ = k.dtype();
  }
  void fill(const Tensor& k, const Tensor& v, const Sequences& source) { fill(k, v, source, source); }
  const std::vector<KeyValues>& entries() const {
    check(tokens_.size() == entries_.size(), "cross-attention", "the state has no source; give it one first");
    return entries_;
  }
  const std::vector<int64_t>& tokens() const { return tokens_; }

  /// As if no sequence shared its rows.
  int64_t bytes() const override {
    return std::accumulate(tokens_.begin(), tokens_.end(), int64_t(0)) * numbers_ * size_of(dtype_);
  }
  void reorder(const std::vector<int64_t>& from) override {
    const Continuation to("cross-attention", from, entries().size());
    to.apply(entries_);
    to.apply(tokens_);
  }
  /// The source does not depend on the target's length.
  bool truncates() const override { return true; }
  void truncate(int64_t, int64_t) override {}
  NamedTensors save() const override {
    NamedTensors out{{"tokens", tensor_of_counts(tokens_)}};
    for (size_t b = 0; b < entries().size(); ++b) {
      if (tokens_[b] == 0) continue;
      out[cat(b, ".keys")] = entries_[b].keys.pages[0];
      out[cat(b, ".values")] = entries_[b].values.pages[0];
    }
    return out;
  }
  void restore(const NamedTensors& kept) override {
    const MemoryScope memory(MemoryClass::decode);
    tokens_ = counts_of(kept_tensor(kept, "tokens"), int64_t(entries_.size()));
    for (size_t b = 0; b < entries_.size(); ++b) {
      if (tokens_[b] == 0) continue;
      entries_[b] = {clone(kept_tensor(kept, cat(b, ".keys"))), clone(kept_tensor(kept, cat(b, ".values")))};
      dtype_ = entries_[b].keys.dtype();
    }
  }

 private:
  std::vector<KeyValues> entries_;
  std::vector<int64_t> tokens_;
  int64_t numbers_;
  DType dtype_ = DType::f32;
};

}  // namespace lithe
