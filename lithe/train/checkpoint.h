// Training checkpoints: everything a run needs to continue as if it had never stopped.
//   RUN/training_state/step-00000200/{model,optimizer}.safetensors, state.json
//   and carried.safetensors with train.carry_state: the states of the lanes
//   and objective.safetensors where objectives have parameters
// A checkpoint directory appears whole (renamed into place) or not at all.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "lithe/train/carried_state.h"
#include "lithe/train/optimizer.h"

namespace lithe {

/// Where a run stands between two steps.
struct TrainState {
  int64_t step = 0, tokens = 0;
  int64_t micro_batches = 0;  // position in the data: micro-batches taken, skipped ones included
  std::set<int64_t> skipped;  // micro-batches left out after a loss spike
  int64_t rollbacks = 0;
  int64_t rollback_step = -1;  // the checkpoint that a loss spike goes back to; -1: none yet
  double interval_loss = 0;    // since the last line of metrics
  int64_t interval_labels = 0, interval_steps = 0;
  int64_t interval_overflows = 0;  // of interval_steps those that were left out
  double interval_norm = 0;
  std::map<std::string, double> interval_auxiliary;  // sums by name
  Statistics interval_statistics;                    // of the parts
  std::vector<double> recent_losses;                 // of the spike window
  int64_t steps_above_threshold = 0;
  double loss_scale = 0;                         // of the next step; 0: that of the recipe
  int64_t good_steps = 0, overflowed_steps = 0;  // with this loss scale; of the whole run
  double last_loss = 0, best_loss = 0;
  int64_t best_step = -1;
  double last_eval_loss = 0;
  double best_score = 0;                   // of a task: higher is better
  int64_t evaluations_without_better = 0;  // since best_step
  int64_t evaluated_step = -1, sampled_step = -1;
  uint64_t metrics_bytes = 0, speed_bytes = 0, samples_bytes = 0;  // sizes of the run's logs
  std::map<std::string, uint64_t> log_checksums;  // of those logs, line after line, by file; none: not known
  double elapsed = 0;                             // seconds of training
  int threads = 0;
  uint64_t data_fingerprint = 0;  // of training and held-out tokens
  uint64_t base_fingerprint = 0;  // of the file of integer weights under adapters, which no checkpoint holds; 0: none
};

/// Saves beside older checkpoints, then drops the oldest beyond `keep` (never that of rollback_step). Returns the
/// directory. `carried`: null where no states are; `of_objective`: TrainedObjective's, or null. `write_weights` writes
/// the file of the model's, where that is not save_weights().
Path save_checkpoint(const Path& run, const Model& model, const AdamW& optimizer, const TrainState& state, int64_t keep,
                     const CarriedState* carried = nullptr, const Parameters* of_objective = nullptr,
                     const std::function<void(const Path&)>& write_weights = {});

/// What the other ranks of a divided model do while the first one saves its checkpoint: give their shares.
void answer_checkpoint(const Model& model, const AdamW& optimizer);

/// Where the checkpoint of a step stands.
Path checkpoint_path(const Path& run, int64_t step);

/// The step of one.
int64_t step_of(const Path& checkpoint);

/// Drops the checkpoints after `step`, which a rollback has made history that never was.
void drop_checkpoints_after(const Path& run, int64_t step);

/// The newest complete checkpoint of a run, or empty. Removes what an interrupted save left behind.
Path latest_checkpoint(const Path& run);

/// Of state.json alone, whose checksum is compared.
TrainState read_state(const Path& checkpoint);

/// Restores all of it; every file's checksum is compared with state.json first.
TrainState load_checkpoint(const Path& checkpoint, Model& model, AdamW& optimizer, CarriedState* carried = nullptr,
                           Parameters* of_objective = nullptr);

/// Makes RUN/averaged/model.safetensors the mean of the last `count` checkpoints' weights, or of fewer where there are
/// fewer.
void average_checkpoints(const Path& run, int64_t count);

/// Makes RUN/model.safetensors the weights of a checkpoint (a hard link where the file system allows).
void publish_weights(const Path& run, const Path& checkpoint);

}  // namespace lithe
