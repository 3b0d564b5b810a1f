// How a trained run answers its own task.
//   RUN/task_report.json   the scores beside those of trivial methods, classes, confusion and the surest errors
//   RUN/predictions.tsv    every scored example: its gold label, the predicted one, the text
#pragma once

#include "lithe/eval/task_report.h"
#include "lithe/infer/load.h"
#include "lithe/recipe/recipe.h"

namespace lithe {

struct TaskScore {
  std::string part;     // "test", else "validation"
  std::string weights;  // "best" where the run kept such, else "averaged" (train.ema_decay), else "last"
  size_t examples = 0;
  double loss = 0;
  TaskReport report;
  std::vector<std::string> labels, warnings;
};

/// Which weights of a run its task is scored with, as load_model() takes them: "best" where it kept such, else
/// "averaged" (train.ema_decay), else "", the last.
std::string scored_weights(const Path& run, const Recipe& recipe);
/// The model with these, in f64 where it was trained so, else in f32.
LoadedModel load_scored(const Path& run, const Recipe& recipe);

/// Answers the task's test part, else its validation part, with scored_weights(); writes the two
/// files, and the run's page anew with them. None where the task has neither part, is of a type without trivial
/// methods (questions, transcriptions, written texts), or a signal came. `baselines`: what trivial methods score, where
/// it is known; null: they are trained.
std::optional<TaskScore> score_task(const Path& run, const Recipe& recipe, const BaselineScores* baselines = nullptr);

std::string task_score_text(const TaskScore& score, const Path& run);
Json task_score_json(const TaskScore& score);

}  // namespace lithe
