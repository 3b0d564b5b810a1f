// The training loop: batches, steps, evaluation, checkpoints, resume, stopping.
#pragma once

#include "lithe/data/config.h"
#include "lithe/train/config.h"
#include "lithe/train/plan.h"
#include "lithe/train/run_log.h"
#include "lithe/train/training_data.h"

namespace lithe {

struct TrainRun {
  Path out;
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  Lessons lessons;
  Path from_pretrained;        // a run whose tokenizer and weights this one starts with; empty: none
  bool fresh_weights = false;  // of from_pretrained only the tokenizer
  Node recipe;                 // everything resolved, for resolved_recipe.yaml
  bool resume = false;
  bool extend = false;        // a resume may give another end: max_steps, max_tokens, num_train_epochs
  bool overwrite = false;     // begin in a directory that holds a run or other files
  int64_t memory_budget = 0;  // bytes; 0: none
  bool fit_memory = false;    // choose accumulation and recomputation instead of refusing
  std::string sample_prompt;
  /// Continues the prompt; empty: no samples. Called every train.sample_steps.
  std::function<std::string(const Model&, const Tokenizer&, const std::string& prompt)> sampler;
  /// Scores the held-out examples of a task or translations; null: the loss is all.
  std::function<HeldOutScores(const Model&, const TrainingData&)> score;
};

struct TrainResult {
  std::string status;  // finished, stopped (in result.json also running, diverged, failed)
  int signal = 0;      // that stopped it
  int64_t steps = 0, tokens = 0;
  double final_loss = 0, eval_loss = 0, best_eval_loss = 0, seconds = 0;
  int64_t best_step = -1, averaged = 0;                 // averaged: train.average_checkpoints
  std::vector<std::pair<std::string, double>> metrics;  // of the last evaluation of a task
  bool perplexity = false;                              // the losses are of words of a vocabulary
  MemoryUse planned, measured;
};

/// Trains, or continues, the run in `out`. The files it leaves are listed in docs/run-directory.md.
/// Throws Error: usage (2), diverged (3), memory (4), or what went wrong (1); what was saved stays.
TrainResult train(TrainRun run);

}  // namespace lithe
