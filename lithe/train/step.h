// One optimiser step, on data or on meta tensors: what the trainer runs and what the planner runs.
#pragma once

#include <span>
#include <string_view>

#include "lithe/objective/device_batch.h"
#include "lithe/train/carried_state.h"
#include "lithe/train/optimizer.h"
#include "lithe/train/rank_sum.h"
#include "lithe/train/trained_objective.h"

namespace lithe {

struct StepLosses {
  LossSums objective;
  std::map<std::string, double>
      auxiliary;          // by name: LossTerms::parts, and means of the micro-batches (Pass::add_loss)
  Statistics statistics;  // of all micro-batches (Pass::add_statistic)
  StepLosses& operator+=(const StepLosses& other);
};
/// Its bytes, for another rank of the same machine kind.
std::string packed(const StepLosses& losses);
/// The first that packed() has put into `from`, which goes on behind it.
StepLosses unpacked(std::string_view& from);

/// Takes gradients, and what was gathered for means, out of the parameters / puts them there.
Gradients take_gradients(const Model& model, const TrainedObjective& objective);
void put_gradients(const Model& model, const TrainedObjective& objective, Gradients gradients);

/// A micro-batch among those of its step, which may run elsewhere.
struct MicroBatchPlace {
  int64_t step = 1;           // from 1
  int64_t index = 0, of = 1;  // micro-batches of the step; the index keys the dropout masks
  int64_t labelled = 0;       // labels of the whole step, over which its loss is a mean
  double loss_scale = 1;      // gradients are times this; losses are as they are
};
int64_t labels_of(const std::vector<DeviceBatch>& micro_batches);

/// Forward and backward of one micro-batch, whose gradients gather in the parameters: its own alone where they hold
/// none before. With `carried` the batch, which has lanes, goes on from its states and brings them forward; no gradient
/// passes from one to the next.
class MicroBatchRun {
 public:
  /// Forward alone. Runs that live at the same time end in the opposite order.
  MicroBatchRun(const Model& model, const TrainedObjective& objective, const DeviceBatch& batch,
                const MicroBatchPlace& place, const TrainConfig& config, CarriedState* carried = nullptr);
  StepLosses backward();

 private:
  const DeviceBatch& batch_;
  StepContext context_;
  CarriedState* carried_;
  StepLosses losses_;
  Tape tape_;
  Var loss_;
};
StepLosses run_micro_batch(const Model& model, const TrainedObjective& objective, const DeviceBatch& batch,
                           const MicroBatchPlace& place, const TrainConfig& config, CarriedState* carried = nullptr);

/// The micro-batches of a step that this rank runs.
struct StepBatches {
  std::span<const DeviceBatch> own;
  int64_t first = 0, count = 0;  // index of the first, of all in the step
  int64_t labelled = 0;          // labels of the whole step
};

/// Who updates layers within the backward pass (train.optimizer_in_backward); `step` is that of the moments.
struct InBackward {
  AdamW& optimizer;
  int64_t step;
  double learning_rate;
};

/// The micro-batches of a step, one after another. What each gives by itself (gradients, losses, statistics) is added
/// along a fixed tree over their index (TreeSum), with those of other ranks where there are some: `ranks` says who runs
/// which, and nothing else depends on it. `in_backward` is used where train.optimizer_in_backward is on; the gradients
/// of layers are gone then.
StepLosses accumulate_gradients(const Model& model, const TrainedObjective& objective, const StepBatches& batches,
                                const TrainConfig& config, int64_t step, CarriedState* carried = nullptr,
                                double loss_scale = 1, const RankSum* ranks = nullptr,
                                const InBackward* in_backward = nullptr);
/// All of them here.
StepLosses accumulate_gradients(const Model& model, const TrainedObjective& objective,
                                const std::vector<DeviceBatch>& micro_batches, const TrainConfig& config, int64_t step,
                                CarriedState* carried = nullptr, double loss_scale = 1);

/// A whole step, as benchmarks repeat it: gradients of all micro-batches, their norm and the update.
void take_step(const Model& model, const TrainedObjective& objective, AdamW& optimizer,
               const std::vector<DeviceBatch>& micro_batches, const TrainConfig& config, int64_t step,
               double learning_rate);

}  // namespace lithe
