// Sums over the rows that cross-attention reads, where these are all that it needs of a source: constant while the
// target is decoded.
#pragma once

#include "lithe/parts/common/recurrent_state.h"

namespace lithe {

class SourceSums final : public State {
 public:
  /// `name` is the mixer's in errors, `shape` that of a sequence's sums, in f32 at least.
  SourceSums(const char* name, const StateShape& of, const Shape& shape)
      : tokens_(name, of.sequences), of_(of), shape_(shape), sums_(size_t(of.sequences)) {}
  /// sum_up(sums) adds what the sources have to the sums of each sequence. One whose source has no tokens keeps what it
  /// has.
  template <class F>
  void fill(const Sequences& source, const F& sum_up) {
    std::vector<int64_t> lengths = tokens();
    for (int64_t b = 0; b < source.count(); ++b) {
      Tensor& sums = sums_[size_t(b)];
      if (source.length(b) || !sums.defined()) sums = fresh();
      if (source.length(b)) lengths[size_t(b)] = source.length(b);
    }
    sum_up(sums_);
    tokens_.set(std::move(lengths));
  }
  const std::vector<Tensor>& sums() const {
    for (const Tensor& x : sums_) check(x.defined(), "cross-attention", "the state has no source; give it one first");
    return sums_;
  }
  const std::vector<int64_t>& tokens() const { return tokens_.all(); }

  int64_t bytes() const override {
    int64_t total = 0;
    for (const Tensor& x : sums_) total += x.defined() ? x.bytes() : 0;
    return total;
  }
  /// Continuations of one sequence share its sums, which nobody writes.
  void reorder(const std::vector<int64_t>& from) override { tokens_.reorder(from, sums_); }
  bool truncates() const override { return true; }
  void truncate(int64_t, int64_t) override {}
  NamedTensors save() const override {
    NamedTensors out{{"tokens", tensor_of_counts(tokens())}};
    for (size_t b = 0; b < sums_.size(); ++b)
      if (sums_[b].defined()) out[cat(b)] = sums_[b];
    return out;
  }
  void restore(const NamedTensors& kept) override {
    tokens_.set(counts_of(kept_tensor(kept, "tokens"), int64_t(sums_.size())));
    for (size_t b = 0; b < sums_.size(); ++b) {
      if (tokens()[b] == 0) continue;
      sums_[b] = fresh();
      restore_tensor(sums_[b], kept, cat(b));
    }
  }

 private:
  TokenCounts tokens_;
  StateShape of_;
  Shape shape_;
  std::vector<Tensor> sums_;  // none before there is a source

  Tensor fresh() const {
    const MemoryScope memory(MemoryClass::decode);
    return zeros(shape_, wide_of(of_.dtype), of_.device);
  }
};

}  // namespace lithe
