// What `lithe eval` says of a task beside its scores: the trivial baselines, the classes, and what was taken for what.
#pragma once

#include "lithe/base/json.h"
#include "lithe/eval/task_baselines.h"

namespace lithe {

struct TaskReport {
  std::vector<Score> scores;
  std::vector<std::pair<std::string, std::vector<Score>>> baselines;
  std::vector<int64_t> confusion;  // empty: no classes
};

/// The examples that a run of `config` learns from, without those that it holds out, for baselines; none where its
/// files are not here any more.
std::vector<Example> training_examples(const TaskConfig& config, const std::vector<std::string>& labels);
std::string task_report_text(const TaskReport& report, const std::vector<std::string>& labels);
void add_task_report(const TaskReport& report, const std::vector<std::string>& labels, Json& json);

}  // namespace lithe
