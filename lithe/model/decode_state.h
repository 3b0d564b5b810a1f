// What a model keeps between decoding steps.
#pragma once

#include "lithe/nn/slots.h"

namespace lithe {

/// One MixerState a layer (two where a layer also reads a source), and the tokens that each sequence has.
class DecodeState {
 public:
  using States = std::vector<std::unique_ptr<MixerState>>;  // null: the layer keeps nothing
  DecodeState(States layers, States cross, int64_t sequences, int64_t capacity)
      : layers_(std::move(layers)), cross_(std::move(cross)), lengths_(size_t(sequences), 0), capacity_(capacity) {}
  int64_t sequences() const { return int64_t(lengths_.size()); }
  int64_t length(int64_t b) const { return lengths_[size_t(b)]; }
  int64_t capacity() const { return capacity_; }
  MixerState* layer(int64_t i) const { return layers_[size_t(i)].get(); }
  /// What the layer's cross-attention keeps of the source; null without one.
  MixerState* cross(int64_t i) const { return cross_.empty() ? nullptr : cross_[size_t(i)].get(); }
  /// Bytes in use, all layers and sequences.
  int64_t bytes() const;
  /// Sequence i continues what was sequence from[i]; others are dropped.
  void reorder(const std::vector<int64_t>& from);
  void truncate(int64_t sequence, int64_t tokens);
  /// For the model: `counts[b]` tokens were added.
  void advance(const Sequences& added);
  /// For the model: what each layer reads of the reference sequence (Companion), as far as it reaches; none where not
  /// asked.
  std::vector<Var> reference;
  /// For the model: read_source() gave it one.
  bool has_source = false;

 private:
  States layers_, cross_;
  std::vector<int64_t> lengths_;
  int64_t capacity_;
};

}  // namespace lithe
