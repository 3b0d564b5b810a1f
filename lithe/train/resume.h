// Opening a run directory: fresh, or to continue what stands there.
#pragma once

#include "lithe/text/tokenizer.h"
#include "lithe/train/plan.h"

namespace lithe {

/// A run has begun here, though it may not have come to a checkpoint.
bool has_begun(const Path& run);

/// Returns the checkpoint to continue from, or empty to start. Fails (usage) when the directory holds a run
/// and `resume` is off, and when the recipe differs from the run's in a key that shapes the result; with `fits` the
/// keys that fit_memory chooses are not compared. Removes files that a killed process was writing.
Path open_run(const Path& run, bool resume, const Node& recipe, bool fits);

/// The files a run starts with: resolved_recipe.yaml, config.json, tokenizer.json, generation_config.json,
/// plan.json, environment.json.
void write_run_files(const Path& run, const Node& recipe, const ModelConfig& model, const TrainConfig& train,
                     const Tokenizers& tokenizers, const Plan& plan);

}  // namespace lithe
