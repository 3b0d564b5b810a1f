// The weights that a model begins with, without the model in memory.
#pragma once

#include "lithe/model/model.h"
#include "lithe/nn/in_turns.h"

namespace lithe {

/// Makes a model of these options on the CPU and gives `made` its parameters with their initial values, a layer at a
/// time and then what lies between the layers; they stand in memory while `made` runs, and all together only where
/// layers share parameters. Not for models that are divided among ranks.
void each_initial_weight(const ModelConfig& config, const ModelOptions& options, const ParametersInTurns::Made& made);

/// What save_weights() writes of such a model.
void save_initial_weights(const ModelConfig& config, const ModelOptions& options, const Path& file);

}  // namespace lithe
