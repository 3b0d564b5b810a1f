// How much each unit of a model counts: by its numbers, by gradients, or by chance.
#pragma once

#include "lithe/model/prunable.h"
#include "lithe/train/step.h"
#include "lithe/train/training_data.h"

namespace lithe {

/// Scores of the units of groups, in the groups' order.
using Importance = std::vector<std::vector<double>>;

enum class NormOf {
  l2,      // Euclidean, of all numbers that a unit has
  l1,      // sum of magnitudes
  output,  // Euclidean, of what joins the rows alone
};

/// By the size of a unit's numbers.
Importance norm_importance(Model& model, const std::vector<PruneGroup>& groups, NormOf norm);

/// The mean over batches of |dL/dz| at z = 1, z a factor on what the unit adds to the rows: the sum of number times
/// gradient over what joins. `model` is trainable. With `per_group` the scores of a group have a Euclidean norm of 1.
/// Polls stop_signal().
Importance gradient_importance(Model& model, const TrainedObjective& objective, const TrainConfig& config,
                               const std::vector<PruneGroup>& groups, const std::vector<DeviceBatch>& batches,
                               bool per_group);

/// Euclidean norm, over the rows of the batches, of what a unit adds to the rows, its numbers there taken as
/// independent: the root of the sum over weights of w^2 times the mean square of what it multiplies [Sun et al. 2024].
/// Fails (usage) on units that join by another operation than a product. Polls stop_signal().
Importance activation_importance(Model& model, const Objective& objective, const std::vector<PruneGroup>& groups,
                                 const std::vector<DeviceBatch>& batches);

/// The mean loss of a label over batches, and its standard error over them.
struct MeanLoss {
  double mean = 0, error = 0;
  int64_t labels = 0;
};
MeanLoss mean_loss(const Model& model, const Objective& objective, const std::vector<DeviceBatch>& batches);

}  // namespace lithe
