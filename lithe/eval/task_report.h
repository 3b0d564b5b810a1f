// What is said of a model's answers to a task beside their scores: the trivial baselines, the classes, what was taken
// for what, and which examples were wrong.
#pragma once

#include "lithe/base/json.h"
#include "lithe/eval/task_baselines.h"
#include "lithe/eval/task_evaluation.h"

namespace lithe {

/// What trivial methods score, by their names.
using BaselineScores = std::vector<std::pair<std::string, std::vector<Score>>>;

struct TaskReport {
  std::vector<Score> scores;
  BaselineScores baselines;
  std::vector<int64_t> confusion;  // empty: no classes
};

/// Of the methods of task_baselines(), which learn from `train`; none where it is empty.
BaselineScores baseline_scores(const TaskConfig& config, const std::vector<Example>& examples,
                               const std::vector<Example>& train, const std::vector<std::string>& labels);

/// Of predictions for `examples`, beside baseline_scores() of them.
TaskReport task_report(const TaskConfig& config, const std::vector<Prediction>& predictions,
                       const std::vector<Example>& examples, BaselineScores baselines,
                       const std::vector<std::string>& labels);

/// The examples that a run of `config` learns from, without those that it holds out, for baselines; none where its
/// files are not here any more.
std::vector<Example> training_examples(const TaskConfig& config, const std::vector<std::string>& labels);

/// A sentence for each baseline that is better than the model in the task's first metric.
std::vector<std::string> task_warnings(const TaskReport& report);

std::string task_report_text(const TaskReport& report, const std::vector<std::string>& labels);
void add_task_report(const TaskReport& report, const std::vector<std::string>& labels, Json& json);

/// Classification and regression: a table (TSV, with a header) of an example a line: whether the answer is right, the
/// gold label, the predicted one and its probability (regression: right stays empty, and there is no probability), the
/// text, and the second text of a pair. Tabs and line ends within texts become spaces. Empty for other types.
std::string predictions_table(TaskType type, const TaskAnswers& answers, const std::vector<Example>& examples,
                              const std::vector<std::string>& labels);
/// The wrong answers of a classification, the surest first, at most `most`: [{text, label, predicted, probability}].
Json task_errors(const TaskAnswers& answers, const std::vector<Example>& examples,
                 const std::vector<std::string>& labels, size_t most);

}  // namespace lithe
