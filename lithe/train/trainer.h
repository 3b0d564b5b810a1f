// The training loop: batches, steps, evaluation, checkpoints, resume, stopping.
#pragma once

#include "lithe/recipe/recipe.h"
#include "lithe/report/run_status.h"
#include "lithe/train/plan.h"

namespace lithe {

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
  bool fits() const { return fit_memory && memory_budget; }
};

struct TrainResult {
  RunStatus status = RunStatus::running;  // of train(): finished, stopped or initialised
  int signal = 0;                         // that stopped it
  int64_t steps = 0, tokens = 0;
  double final_loss = 0, eval_loss = 0, best_eval_loss = 0, seconds = 0;
  std::string best_by;                                  // what chose best_step: "loss", or a metric
  double best_value = 0;                                // of it
  int64_t best_step = -1, averaged = 0;                 // averaged: train.average_checkpoints
  std::vector<std::pair<std::string, double>> metrics;  // of the last evaluation of a task
  bool perplexity = false;                              // the losses are of words of a vocabulary
  MemoryUse planned, measured;
};

/// Trains, or continues, the run in `out`. The files it leaves are listed in docs/run-directory.md.
/// Throws Error: usage (2), diverged (3), memory (4), or what went wrong (1); what was saved stays.
TrainResult train(TrainRun run);

}  // namespace lithe
