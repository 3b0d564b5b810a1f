// States that training carries from segment to segment of a text in lanes (data/lanes.h).
#pragma once

#include "lithe/objective/device_batch.h"
#include "lithe/recipe/train_config.h"

namespace lithe {

/// One state a lane. What it keeps is a constant to the gradients: truncated backpropagation through time.
class CarriedState {
 public:
  /// `capacity`: tokens of the longest document.
  CarriedState(const Model& model, int64_t lanes, int64_t capacity);
  int64_t bytes() const { return state_->bytes(); }
  /// The state for a batch: a sequence for each of its own, which goes on with its lane or begins anew.
  DecodeState& enter(const DeviceBatch& batch);
  /// To be called when the rows have run: each lane keeps its last sequence.
  void leave(const DeviceBatch& batch);
  NamedTensors save() const { return state_->save(); }
  void restore(const NamedTensors& kept);

 private:
  const Model* model_;
  int64_t lanes_, capacity_;
  std::unique_ptr<DecodeState> state_;
};

/// Refuses (usage) what cannot carry states: models without a state whose size is bounded, whose gradients cannot take
/// it as a constant, or whose positions end before the `longest` document does; recomputed activations.
void check_carries_states(const Model& model, const TrainConfig& config, int64_t longest);

}  // namespace lithe
