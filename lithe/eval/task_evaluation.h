// A model's answers to the examples of a task, and how right they are.
#pragma once

#include <functional>

#include "lithe/data/task_batches.h"
#include "lithe/eval/task_metrics.h"
#include "lithe/model/model.h"
#include "lithe/train/run_log.h"

namespace lithe {

struct TaskAnswers {
  std::vector<Prediction> predictions;             // one an example
  std::vector<std::vector<double>> probabilities;  // classification: of each class
  double loss = 0;                                 // mean over the labels
};

/// Runs the model over all examples. A word beyond data.sequence_length has the tag 0; of the parts of a long context
/// the likeliest answer counts, and none where the first row of every part is likelier. Polls stop_signal(): what it
/// returns then is not complete. `progress(done, all)` optional.
TaskAnswers answer(const Model& model, const TaskBatches& batches,
                   const std::function<void(int64_t, int64_t)>& progress = {});

/// What the trainer calls at each evaluation.
std::function<HeldOutScores(const Model&, const TaskBatches&, const std::vector<std::string>& labels)> score_task_of(
    const TaskConfig& config);

}  // namespace lithe
