// Models that grow while they learn (section train.growth).
#pragma once

#include "lithe/train/optimizer.h"

namespace lithe {

/// The model after `stage` growths of one that begins as `first`. Fails (usage) where it cannot grow so.
ModelConfig config_of_stage(const ModelConfig& first, const GrowthConfig& growth, int64_t stage);

/// The model after all of them.
inline ModelConfig last_config(const ModelConfig& first, const GrowthConfig& growth) {
  return config_of_stage(first, growth, int64_t(growth.steps.size()));
}

/// Gives `to`, made from config_of_stage(stage), the values of the model of the stage before, and its optimiser what
/// growth.optimizer_state says: a pure function of both and of the seed.
void grow_to_stage(const Model& from, const AdamW& moments, Model& to, AdamW& to_moments, const TrainConfig& config,
                   int64_t stage);

/// Steps that Adam's bias correction counts at optimiser step `step`: those since its moments began.
int64_t steps_of_moments(const GrowthConfig& growth, int64_t step);

}  // namespace lithe
