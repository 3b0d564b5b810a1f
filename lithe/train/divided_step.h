// One step of a model that several ranks hold together.
#pragma once

#include "lithe/train/step.h"

namespace lithe {

/// accumulate_gradients() of a divided model (Model::division). All ranks of a copy of it call it with the same
/// micro-batches, and the copies' sums are added along the tree of their ranks. Stages of a pipeline run all
/// micro-batches forward, then all backward; ranks of a sequence each run their tokens.
StepLosses divided_gradients(const Model& model, const TrainedObjective& objective, const StepBatches& batches,
                             const TrainConfig& config, int64_t step, double loss_scale);

/// The tokens of that rank of each sequence of a batch, those before them counted as past. Fails (usage) where labels
/// are not one a token.
DeviceBatch tokens_of_rank(const DeviceBatch& batch, int rank, int ranks);

}  // namespace lithe
