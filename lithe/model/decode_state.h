// What a model keeps between decoding steps.
#pragma once

#include <functional>
#include <set>

#include "lithe/autograd/var.h"
#include "lithe/nn/state.h"
#include "lithe/ops/sequences.h"

namespace lithe {

/// The states of all sub-layers, and the tokens that each sequence has.
class DecodeState {
 public:
  /// Of one sub-layer: a state for each stage of its residual; none where nothing is kept.
  struct Entry {
    std::string part;          // "layers.0.mixer"
    std::string source = {};   // whose tokens it keeps, where it is of cross-attention
    bool keeps_target = true;  // and what it keeps depends on the tokens of the text, too
    std::vector<std::unique_ptr<State>> stages;
  };
  using Entries = std::vector<std::vector<Entry>>;  // [layer][sub-layer]
  DecodeState(Entries entries, int64_t sequences, int64_t capacity)
      : entries_(std::move(entries)), lengths_(size_t(sequences), 0), capacity_(capacity) {}
  int64_t sequences() const { return int64_t(lengths_.size()); }
  int64_t length(int64_t b) const { return lengths_[size_t(b)]; }
  int64_t capacity() const { return capacity_; }
  /// Null where the sub-layer keeps nothing.
  State* of(int64_t layer, int64_t sub_layer, int64_t stage) const {
    const auto& stages = entries_[size_t(layer)][size_t(sub_layer)].stages;
    return stages.empty() ? nullptr : stages[size_t(stage)].get();
  }
  const Entries& entries() const { return entries_; }
  /// Bytes in use, all layers and sequences.
  int64_t bytes() const;
  /// Sequence i continues what was sequence from[i]; others are dropped.
  void reorder(const std::vector<int64_t>& from);
  /// All states promise that truncate() works at every length.
  bool truncates() const;
  /// Fails when rows that continue some state cannot have gradients (State::differentiable).
  void check_differentiable() const;
  void truncate(int64_t sequence, int64_t tokens);
  /// Everything that is kept, and back into a new state of the same model and shape, to the bit.
  NamedTensors save() const;
  void restore(const NamedTensors& kept);
  /// For the model: `counts[b]` tokens were added.
  void advance(const Sequences& added);
  /// For the model: what each layer reads of the reference sequence (SubLayer::reference), as far as it reaches.
  std::vector<Var> references;
  /// For the model: those that read_sources() gave it.
  std::set<std::string> sources;

 private:
  Entries entries_;
  std::vector<int64_t> lengths_;
  int64_t capacity_;

  void each(const std::function<void(const Entry&, State&, size_t stage)>& f) const;
};

}  // namespace lithe
