// What early exits cost in quality and save in time: one model under many rules.
#pragma once

#include "lithe/data/task.h"
#include "lithe/data/token_store.h"
#include "lithe/eval/task_evaluation.h"
#include "lithe/nn/exits.h"

namespace lithe {

/// The model under one rule; without a rule all rows run all layers.
struct ExitPoint {
  std::optional<ExitRule> rule;
  double quality = 0, mean_layers = 0, milliseconds = 0;  // of one token or sentence, at batch 1
};
struct ExitTable {
  std::string quality;  // "token_perplexity", or the task's metric
  bool lower_is_better = true;
  std::string unit;  // "token", "sentence"
  int64_t scored = 0, timed = 0;
  std::vector<ExitPoint> points;  // the first without a rule, then by criterion and threshold
};

/// How much worse than without a rule, as a share of that: 0.01 is 1 %; negative: better.
double relative_loss(const ExitTable& table, const ExitPoint& point);
/// The fastest rule that loses at most `most` (relative_loss); none where none does or is faster than without.
const ExitPoint* best_exit(const ExitTable& table, double most);

/// The rules that a table has by default: every criterion with several thresholds, and every exit for all rows.
std::vector<ExitRule> exit_grid(const Model& model);

/// Perplexity of the first `scored` tokens of a text in windows of `context`, and the time of a decoding step of a text
/// of the first `timed` of them, read one by one with a state. Fails (usage) where the model has no exits or does not
/// predict the next token. Polls stop_signal(), failing when asked to stop.
ExitTable text_exit_table(const Model& model, const TokenStore& text, int64_t context, int64_t scored, int64_t timed,
                          const std::vector<ExitRule>& rules, const Progress& progress = {});

/// The task's best metric over batches of one sentence each.
ExitTable task_exit_table(const Model& model, const TaskBatches& batches, const TaskConfig& task,
                          const std::vector<std::string>& labels, const std::vector<ExitRule>& rules,
                          const Progress& progress = {});

}  // namespace lithe
