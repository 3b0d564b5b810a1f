// Opening a run directory: fresh, or to continue what stands there.
#pragma once

#include "lithe/text/tokenizer.h"
#include "lithe/train/plan.h"

namespace lithe {

/// A run has begun here, though it may not have come to a checkpoint.
bool has_begun(const Path& run);

/// Fails (usage) unless `run` is a directory that is new or empty, or holds a run.
void check_place_of_run(const Path& run);

/// Files and directories in a run are named so.
bool stands_in_run(const std::string& name);

/// Fails (usage) where `run` holds what no command of lithe writes into a run.
void check_only_run(const Path& run, const char* operation);

/// Removes what a run left that would mislead the next in its place.
void remove_run(const Path& run);

struct OpenedRun {
  Path checkpoint;       // to continue from; empty: start
  std::string extended;  // how the recipe's end of the run differs from before, when it does
};
/// Fails (usage) when the recipe differs from that of the run, where it has one, in a key that shapes the result; with
/// `fits` the keys that fit_memory chooses are not compared, and with `extend` train.max_steps, max_tokens and
/// num_train_epochs may be others. Returns how these differ.
std::string check_same_recipe(const Path& run, const Node& recipe, bool fits, bool extend);

/// What becomes of a run that stands in the directory.
enum class Opening { fresh, resume, overwrite };

/// Opens `run` to start or to continue. Fails (usage) when the directory holds a run and `how` is fresh, and where
/// check_same_recipe() does. Removes files that a killed process was writing; a run to be overwritten stays until
/// remove_run().
OpenedRun open_run(const Path& run, Opening how, const Node& recipe, bool fits, bool extend);

/// The files a run starts with: resolved_recipe.yaml, config.json, tokenizer.json, generation_config.json,
/// plan.json, environment.json.
void write_run_files(const Path& run, const Node& recipe, const ModelConfig& model, const TrainConfig& train,
                     const Tokenizers& tokenizers, const Plan& plan);

}  // namespace lithe
