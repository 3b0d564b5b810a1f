// A model's answers to the examples of a task, and how right they are.
#pragma once

#include "lithe/data/task_batches.h"
#include "lithe/eval/held_out.h"
#include "lithe/eval/task_metrics.h"

namespace lithe {

struct TaskAnswers {
  std::vector<Prediction> predictions;             // one an example
  std::vector<std::vector<double>> probabilities;  // classification: of each class
  double loss = 0;                                 // mean over the labels
  std::vector<LossSums> batches;                   // of each batch
};

/// Runs the model over all examples. A word beyond data.sequence_length has the tag 0; of the parts of a long context
/// the likeliest answer counts, and none where the first row of every part is likelier. Polls stop_signal(): what it
/// returns then is not complete.
/// `exits`, where given: rows leave the model by this rule.
TaskAnswers answer(const Model& model, const TaskBatches& batches, const Progress& progress = {},
                   ExitRun* exits = nullptr);

/// The examples of a task that are held out, scored by its metrics.
class HeldOutTask final : public HeldOut {
 public:
  /// The batches are not shuffled. `labels`: the names of the classes.
  HeldOutTask(TaskBatches batches, const TaskConfig& config, std::vector<std::string> labels)
      : batches_(std::move(batches)), config_(config), labels_(std::move(labels)) {}
  const TaskBatches& batches() const override { return batches_; }
  BestBy best_by() const override;
  /// The task's first metric of answers to batches().
  double first_score(const TaskAnswers& answers) const;
  std::optional<HeldOutScores> score(const Model& model, const Progress& progress = {}) const override;

 private:
  TaskBatches batches_;
  TaskConfig config_;
  std::vector<std::string> labels_;
};

}  // namespace lithe
