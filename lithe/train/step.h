// One optimiser step, on data or on meta tensors: what the trainer runs and what the planner runs.
#pragma once

#include "lithe/objective/device_batch.h"
#include "lithe/train/carried_state.h"
#include "lithe/train/optimizer.h"

namespace lithe {

struct StepLosses {
  LossSums objective;
  std::map<std::string, double> auxiliary;  // by name: the mean of the micro-batches (Pass::add_loss)
  Statistics statistics;                    // of all micro-batches (Pass::add_statistic)
};

/// Forward and backward of one step's micro-batches; gradients gather in the parameters. `step` counts
/// from 1 and keys the dropout masks. With `carried` the micro-batches, which have lanes, go on one after another from
/// its states and bring them forward; no gradient passes from one to the next.
StepLosses accumulate_gradients(const Model& model, const Objective& objective,
                                const std::vector<DeviceBatch>& micro_batches, const TrainConfig& config, int64_t step,
                                CarriedState* carried = nullptr);

}  // namespace lithe
