// The training loop: batches, steps, evaluation, checkpoints, resume, stopping.
#pragma once

#include <functional>
#include <optional>

#include "lithe/recipe/recipe.h"
#include "lithe/report/run_status.h"
#include "lithe/train/plan.h"

namespace lithe {

/// Where a training stands after a step.
struct TrainStep {
  int64_t step = 0, total_steps = 0;  // total_steps 0: no end in steps
  int64_t tokens = 0;                 // of all steps
  double loss = 0;                    // of this step, mean over the labels
  double learning_rate = 0, gradient_norm = 0;
  double seconds = 0;               // of training so far
  std::optional<double> eval_loss;  // held-out, where it was measured after this step
};

struct TrainRun {
  Path out;
  Recipe recipe;
  bool resume = false;
  bool extend = false;        // a resume may give another end: max_steps, max_tokens, num_train_epochs
  bool overwrite = false;     // begin in a directory that holds a run or other files
  int64_t memory_budget = 0;  // bytes; 0: none
  bool fit_memory = false;    // choose accumulation and recomputation instead of refusing
  bool initialise = false;    // save the initial weights as a checkpoint of step 0, and train nothing
  bool samples = true;        // models that continue a text do so with generate.prompt, every train.sample_steps
  /// Called after each step and what was due with it, by the thread that trains. False: the run stops here, saved, as
  /// by a signal. What it throws ends the run as an error does.
  std::function<bool(const TrainStep&)> on_step = {};
  bool fits() const { return fit_memory && memory_budget; }
};

struct TrainResult {
  RunStatus status = RunStatus::running;  // of train(): finished, stopped or initialised
  int signal = 0;                         // that stopped it; 0 of a stopped run: on_step did
  int64_t steps = 0, tokens = 0;
  double final_loss = 0, eval_loss = 0, best_eval_loss = 0, seconds = 0;
  std::string best_by;                                  // what chose best_step: "loss", or a metric
  double best_value = 0;                                // of it
  int64_t best_step = -1, averaged = 0;                 // averaged: train.average_checkpoints
  int64_t overflowed = 0;                               // steps that train.loss_scaling left out
  std::vector<std::pair<std::string, double>> metrics;  // of the last evaluation of a task
  bool perplexity = false;                              // the losses are of words of a vocabulary
  MemoryUse planned, measured;
};

/// Trains, or continues, the run in `out`. The files it leaves are listed in docs/run-directory.md.
/// Throws Error: usage (2), diverged (3), memory (4), or what went wrong (1); what was saved stays.
TrainResult train(TrainRun run);

}  // namespace lithe
