// What a training run left in its directory, read with tolerance: what is missing or damaged is named, not fatal.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lithe/base/files.h"
#include "lithe/report/format.h"
#include "lithe/report/run_status.h"

namespace lithe::report {

/// Columns of the training lines of metrics.jsonl, all of one length. Null, "NaN" and missing values are NaN.
struct TrainingCurve {
  std::vector<double> step, tokens, epoch, loss, learning_rate, grad_norm;
  /// Losses beside that of the objective, by name.
  struct Auxiliary {
    std::vector<double> step, loss;
  };
  std::map<std::string, Auxiliary> auxiliary;
};

/// A loss spike that was taken back: the run went back to step `back_to` and left those micro-batches out.
struct LossSpike {
  double step = 0, loss = 0, limit = 0, back_to = 0, first_batch = 0, last_batch = 0;
};

/// What parts show of themselves, over the steps: one row a logged step, one value or several.
struct PartStatistic {
  std::string name;
  int64_t layer = 0;  // from 1; 0: of no layer
  std::vector<double> step;
  std::vector<std::vector<double>> values;
};

struct Evaluation {
  double step = 0, loss = 0, perplexity = 0, bits_per_byte = 0;  // NaN where not given
  bool best = false;
  std::vector<std::pair<std::string, double>> metrics;  // of a task, by name
};

/// Columns of speed.jsonl.
struct SpeedCurve {
  std::vector<double> step, tokens_per_second, step_seconds, elapsed_seconds;
};

struct Sample {
  int64_t step = 0;
  std::string prompt, text;
};

/// Bytes by ledger class; NaN where not given.
struct MemoryLedger {
  static const std::vector<std::string>& class_names();  // weights ... workspace
  std::vector<double> classes;                           // in the order of class_names()
  double peak = 0;                                       // of the sum over all classes
};

/// What plan.json may say about a part.
struct CostKind {
  std::string key, title;
  Quantity quantity;
  bool share;  // worth a column with the part's share of the sum
};

/// The cost of one part by itself: parts do not contain each other, so sums over them are meaningful.
struct PartCost {
  static const std::vector<CostKind>& kinds();
  std::string part;
  std::vector<double> costs;  // in the order of kinds(); NaN where not given
};

struct RunResult {
  std::optional<RunStatus> status;
  double steps = 0, final_loss = 0, best_eval_loss = 0, best_step = 0, seconds = 0;
  std::string message;
};

/// What `lithe eval --by-position` kept: loss by the number of tokens before.
struct LossByPosition {
  double trained_length = 0, context_length = 0;
  std::vector<double> position, loss;  // the middle of each bin
};

/// How the run answers its task, beside trivial methods.
struct TaskRecord {
  std::string part, weights;
  double examples = 0;
  std::vector<std::string> metrics;
  std::vector<std::pair<std::string, std::vector<double>>> scores;  // by metric: of the model, then of each baseline
  struct Class {
    std::string name;
    double precision = 0, recall = 0, f1 = 0, examples = 0;
    std::vector<double> taken_for;  // examples, by predicted class
  };
  std::vector<Class> classes;
  struct WrongAnswer {
    std::string text, label, predicted;
    double probability = 0;
  };
  std::vector<WrongAnswer> errors;  // the surest
  std::vector<std::string> warnings;
};

struct RunRecord {
  TrainingCurve training;
  std::vector<PartStatistic> statistics;  // by name, then layer
  std::vector<LossSpike> spikes;
  std::vector<Evaluation> evaluations;
  SpeedCurve speed;
  std::vector<Sample> samples;  // in the order of the file
  std::optional<MemoryLedger> planned, measured;
  std::optional<double> parameters;
  std::vector<PartCost> parts;
  std::vector<std::pair<std::string, std::string>> environment;
  std::string recipe;
  std::optional<RunResult> result;
  std::optional<LossByPosition> by_position;  // nothing is missing without it
  std::optional<TaskRecord> task;             // the same
  std::vector<std::string> missing;           // files that are not there
  std::vector<std::string> damaged;           // what could not be read, with the reason
};

/// Reads metrics.jsonl, speed.jsonl, samples.jsonl, memory.json, plan.json, environment.json, resolved_recipe.yaml,
/// result.json and, where they are, loss_by_position.json and task_report.json. A line with a step that an earlier line
/// already had replaces that line and the ones after it: a resumed run repeats steps. Fails only when `directory` holds
/// none of the files.
RunRecord read_run_record(const Path& directory);

}  // namespace lithe::report
