// Models fine-tuned on tasks, with several seeds: which keeps how much of the base's quality, and at what cost
// [TH Tables 2.1-2.3].
//   DIR/runs/<model>/<task>/seed-<n>/   a run directory for each training, with its scores.json; with folds they are
//                                       below it, fold-<k>/
//   DIR/timing.json                     the rounds in which they were timed
//   DIR/finetuning.{json,md,html}       the tables
#pragma once

#include <optional>

#include "lithe/compare/side_by_side.h"
#include "lithe/eval/task_evaluation.h"
#include "lithe/train/trainer.h"

namespace lithe::compare {

struct PretrainedModel {
  std::string name;
  Path directory;      // of a run; empty: the tasks' recipes are trained as they stand
  bool fresh = false;  // its architecture and tokenizer alone, trained from the start
};

struct FinetuneRequest {
  std::vector<PretrainedModel> models;  // the first is the base
  std::vector<Path> tasks;              // recipes with a section task; a task is named by its file
  std::vector<int64_t> seeds;
  std::vector<std::string> set;  // overrides of every task's recipe
  int64_t folds = 0;             // of the training examples, each the test part in turn; 0: the recipes' own parts
  Path out;
  Launcher launcher = {};  // of runs that are not done yet
  std::string only = {};   // "MODEL/TASK/SEED", with folds "MODEL/TASK/SEED/FOLD": train and score this, and no more
};

/// One task's scores of one model, over the seeds and, in each, over the folds.
struct TaskOutcome {
  std::vector<std::vector<double>> scores;  // by seed, then by fold; by metric
  std::vector<double> seconds;              // by round, a sample
  int64_t folds = 1;
  double mean(size_t metric) const;
  double deviation(size_t metric) const;
  /// Of each fold, the mean over the seeds that have all folds.
  std::vector<double> by_fold(size_t metric) const;
};

/// How many times as fast as the base, with the interval that holds the truth with probability 0.95.
struct Ratio {
  double value = 0, low = 0, high = 0;
};
/// From seconds[round] of each, measured in turns: the mean of the logarithms, and its error over the rounds. None for
/// fewer than two rounds.
std::optional<Ratio> speed_ratio(const std::vector<double>& seconds, const std::vector<double>& of_base);

struct FinetunedModel {
  PretrainedModel model;
  int64_t parameters = 0, embedding_parameters = 0;  // of the encoder with the head of the first task
  std::vector<TaskOutcome> tasks;
  double average = 0;                                         // mean over the tasks of the main metric
  double prr = 0, pcr_all = 0, pcr_embeddings = 0, poep = 0;  // percent, against the base
  double sample_seconds = 0;                                  // median over the rounds
  std::optional<Ratio> speed_up;                              // none: of the base, and where nothing was timed
};

struct Finetuning {
  std::vector<std::string> tasks;
  std::vector<std::vector<std::string>> metrics;  // by task; the first is the main one
  std::vector<std::vector<double>> majority;      // by task and metric: the score of the most frequent label; NaN: none
  // By task: the scores of trivial methods (eval/task_baselines.h), by name.
  std::vector<std::vector<std::pair<std::string, std::vector<double>>>> baselines;
  // With folds, by task: the same of each fold, by name, fold and metric.
  std::vector<std::vector<std::pair<std::string, std::vector<std::vector<double>>>>> fold_baselines;
  std::vector<std::vector<Better>> better;  // by task and metric
  std::vector<std::string> scored_on;       // by task: test or validation
  std::vector<FinetunedModel> models;
  std::vector<int64_t> seeds;
  int64_t folds = 0;
  std::vector<std::pair<std::string, Path>> runs;  // what the page shows more of: a run of each model and task
  bool complete = true;
};

/// A model's first metric of a task less that of a trivial method: the mean over the folds, with the half length of its
/// 95 % interval (infinite for fewer than two folds: the difference of one test part has no error here).
struct Advantage {
  std::string method;
  double value = 0, half_width = 0;
  bool worse = false;  // than the method, noise or not
};
std::vector<Advantage> advantages(const Finetuning& result, size_t model, size_t task);
/// A sentence for each model and task that a trivial method is better on.
std::vector<std::string> warnings(const Finetuning& result);

/// Trains what is not done yet and scores it on the task's test part, else its validation part, with the best weights
/// where there was a validation part to find them, else the last. Then the models of the first seed answer the same
/// examples in turns, in an order that changes, and are timed. Stopped by a signal it returns what it has. With `only`
/// it writes no tables and returns none.
Finetuning finetune(const FinetuneRequest& request);

std::string to_json_text(const Finetuning& result);
std::string to_markdown(const Finetuning& result);
std::string to_page(const Finetuning& result);

}  // namespace lithe::compare
