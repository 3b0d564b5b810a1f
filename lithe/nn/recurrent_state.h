// Decode states whose size does not grow with the tokens.
#pragma once

#include "lithe/nn/slots.h"

namespace lithe {

/// One tensor a sequence, zeros before the first token. It cannot forget single tokens.
class RecurrentState final : public MixerState {
 public:
  /// `mixer` names the part in errors. An empty shape: nothing is kept.
  RecurrentState(const char* mixer, int64_t sequences, const Shape& shape, DType dtype, Device device)
      : mixer_(mixer), lengths_(size_t(sequences), 0) {
    const MemoryScope memory(MemoryClass::decode);
    for (int64_t b = 0; b < sequences; ++b) tensors_.push_back(zeros(shape, dtype, device));
  }

  /// The tensors that the rows of `sequences` continue, which their tokens are counted for.
  const std::vector<Tensor>& advance(const Sequences& sequences) {
    check(sequences.count() == int64_t(tensors_.size()), mixer_, "the state holds ", tensors_.size(),
          " sequences, got rows of ", sequences.count());
    for (int64_t b = 0; b < sequences.count(); ++b) {
      int64_t& length = lengths_[size_t(b)];
      check(sequences.past(b) == length, mixer_, "sequence ", b, " has ", length, " tokens, the rows continue after ",
            sequences.past(b));
      length += sequences.length(b);
    }
    return tensors_;
  }

  int64_t bytes() const override {
    int64_t total = 0;
    for (const Tensor& x : tensors_) total += x.bytes();
    return total;
  }
  void reorder(const std::vector<int64_t>& from) override {
    std::vector<Tensor> tensors;
    std::vector<int64_t> lengths;
    std::vector<bool> taken(tensors_.size());
    for (int64_t i : from) {
      check(i >= 0 && i < int64_t(tensors_.size()), mixer_, "reorder from sequence ", i, " of ", tensors_.size());
      const MemoryScope memory(MemoryClass::decode);
      tensors.push_back(taken[size_t(i)] ? clone(tensors_[size_t(i)]) : tensors_[size_t(i)]);
      taken[size_t(i)] = true;
      lengths.push_back(lengths_[size_t(i)]);
    }
    tensors_ = std::move(tensors);
    lengths_ = std::move(lengths);
  }
  void truncate(int64_t sequence, int64_t tokens) override {
    int64_t& length = lengths_[size_t(sequence)];
    check(tokens >= 0 && tokens <= length, mixer_, "cannot truncate ", length, " tokens to ", tokens);
    if (tokens == length) return;
    check(tokens == 0 || tensors_[size_t(sequence)].numel() == 0, mixer_, "the state sums over all ", length,
          " tokens and cannot go back to ", tokens, "; truncate to 0 and feed the first ", tokens, " again");
    fill_zero(tensors_[size_t(sequence)]);
    length = tokens;
  }

 private:
  const char* mixer_;
  std::vector<Tensor> tensors_;
  std::vector<int64_t> lengths_;
};

}  // namespace lithe
