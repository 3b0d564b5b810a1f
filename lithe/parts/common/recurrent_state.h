// Decode states whose size does not grow with the tokens.
#pragma once

#include "lithe/nn/slots.h"
#include "lithe/parts/common/continuations.h"

namespace lithe {

/// One tensor a sequence, zeros before the first token. It cannot forget single tokens.
class RecurrentState final : public State {
 public:
  /// `mixer` names the part in errors. An empty shape: nothing is kept.
  /// Numbers are kept in f32 at least. `differentiable`: the mixer takes what is kept as a constant under a tape.
  RecurrentState(const char* mixer, const StateShape& of, const Shape& shape, bool differentiable = false)
      : mixer_(mixer), tokens_(mixer, of.sequences), differentiable_(differentiable) {
    const MemoryScope memory(MemoryClass::decode);
    for (int64_t b = 0; b < of.sequences; ++b) tensors_.push_back(zeros(shape, wide_of(of.dtype), of.device));
  }

  /// The tensors that the rows of `sequences` continue, which their tokens are counted for.
  const std::vector<Tensor>& advance(const Sequences& sequences) {
    tokens_.check_continues(sequences);
    tokens_.add(sequences);
    return tensors_;
  }

  int64_t bytes() const override {
    int64_t total = 0;
    for (const Tensor& x : tensors_) total += x.bytes();
    return total;
  }
  void reorder(const std::vector<int64_t>& from) override {
    tokens_.reorder_apart(from, tensors_, [](const Tensor& x) { return clone(x); });
  }
  bool truncates() const override { return tensors_.empty() || tensors_[0].numel() == 0; }
  /// A sub-layer that keeps nothing has nothing that a gradient could miss.
  bool differentiable() const override { return differentiable_ || truncates(); }
  NamedTensors save() const override {
    NamedTensors out{{"tokens", tensor_of_counts(tokens_.all())}};
    for (size_t b = 0; b < tensors_.size(); ++b)
      if (tensors_[b].numel()) out[cat(b)] = tensors_[b];
    return out;
  }
  void restore(const NamedTensors& kept) override {
    tokens_.set(counts_of(kept_tensor(kept, "tokens"), int64_t(tensors_.size())));
    for (size_t b = 0; b < tensors_.size(); ++b)
      if (tensors_[b].numel()) restore_tensor(tensors_[b], kept, cat(b));
  }
  void truncate(int64_t sequence, int64_t tokens) override {
    const int64_t length = tokens_[sequence];
    const bool goes_back = tokens > 0 && tokens < length;
    check(!goes_back || tensors_[size_t(sequence)].numel() == 0, mixer_, "the state sums over all ", length,
          " tokens and cannot go back to ", tokens, "; truncate to 0 and feed the first ", tokens, " again");
    tokens_.truncate(sequence, tokens);
    if (tokens != length) fill_zero(tensors_[size_t(sequence)]);
  }

 private:
  const char* mixer_;
  TokenCounts tokens_;
  bool differentiable_;
  std::vector<Tensor> tensors_;
};

}  // namespace lithe
