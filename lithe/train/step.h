// One optimiser step, on data or on meta tensors: what the trainer runs and what the planner runs.
#pragma once

#include "lithe/data/batches.h"
#include "lithe/train/optimizer.h"

namespace lithe {

/// A batch as tensors. On meta only its sizes count.
struct DeviceBatch {
  Tensor ids;     // i32 [N] or [N, token_width]
  Tensor labels;  // i32, or f32 of a regression: Head::count
  Sequences sequences;
  std::vector<int64_t> predicted;  // see Batch
  int64_t labelled = 0;
  Tensor source;  // i32 [M] of an encoder-decoder; else none
  Sequences source_sequences;

  /// Rows that the model reads.
  int64_t rows() const { return sequences.rows() + source_sequences.rows(); }
};
DeviceBatch to_device(const Batch& batch, Device device);

/// The model's rows [N, D] of a batch, with its source where it has one.
Var rows_of(const Model& model, const DeviceBatch& batch);

/// Forward and backward of one step's micro-batches; gradients gather in the parameters. `step` counts
/// from 1 and keys the dropout masks.
LossSums accumulate_gradients(const Model& model, const std::vector<DeviceBatch>& micro_batches,
                              const TrainConfig& config, int64_t step);

/// Sums over the rows of a batch, without gradients.
LossSums evaluate_batch(const Model& model, const DeviceBatch& batch);

/// Sums over the first epoch of `held_out`; none when a signal asked to stop. `before(i)` is called before batch i.
std::optional<LossSums> evaluate(const Model& model, const BatchSource& held_out,
                                 const std::function<void(int64_t)>& before = {});

}  // namespace lithe
