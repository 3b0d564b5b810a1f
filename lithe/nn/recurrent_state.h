// Decode states whose size does not grow with the tokens.
#pragma once

#include "lithe/nn/continuations.h"
#include "lithe/nn/slots.h"

namespace lithe {

/// One tensor a sequence, zeros before the first token. It cannot forget single tokens.
class RecurrentState final : public MixerState {
 public:
  /// `mixer` names the part in errors. An empty shape: nothing is kept.
  RecurrentState(const char* mixer, int64_t sequences, const Shape& shape, DType dtype, Device device)
      : mixer_(mixer), tokens_(mixer, sequences) {
    const MemoryScope memory(MemoryClass::decode);
    for (int64_t b = 0; b < sequences; ++b) tensors_.push_back(zeros(shape, dtype, device));
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
    tokens_.reorder(from, tensors_, [](const Tensor& x) { return clone(x); });
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
  std::vector<Tensor> tensors_;
};

}  // namespace lithe
