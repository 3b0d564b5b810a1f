// What a training run writes for people and programs: metrics.jsonl (deterministic numbers only),
// speed.jsonl, samples.jsonl, TensorBoard events, and progress on stderr.
#pragma once

#include <memory>

#include "lithe/base/progress.h"
#include "lithe/eval/held_out.h"
#include "lithe/report/tensorboard.h"
#include "lithe/train/checkpoint.h"

namespace lithe {

class RunLog {
 public:
  /// With `resumed` the logs are cut back to what the checkpoint knew, and one that was damaged since is set aside, as
  /// FILE.damaged, with a warning, and starts empty. Otherwise all start empty.
  RunLog(const Path& run, TrainState* resumed, int64_t total_steps);
  ~RunLog() { clear(); }

  struct Interval {
    int64_t step, tokens;
    double epoch, loss, learning_rate, gradient_norm;
    int64_t overflowed_steps;                 // of the run so far
    std::map<std::string, double> auxiliary;  // losses beside the objective's, by name
    Statistics statistics;                    // what parts show of themselves
    double tokens_per_second, step_seconds, elapsed;
  };
  void interval(const Interval& line, TrainState& state);
  void evaluation(int64_t step, const HeldOutScores& scores, bool best, const std::string& best_by, TrainState& state);
  /// A loss spike that was taken back: the loss of step `at` was above `limit`, the run went on from `step`, and leaves
  /// the micro-batches from first_batch to last_batch out.
  struct Spike {
    int64_t step, at;
    double loss, limit;
    int64_t first_batch, last_batch;
  };
  void spike(const Spike& spike, TrainState& state);
  void sample(int64_t step, const std::string& prompt, const std::string& text, TrainState& state);
  /// A damaged log was: the checkpoint's sizes are no longer those of the files.
  bool set_aside() const { return set_aside_; }
  /// A short line that a terminal overwrites; elsewhere nothing.
  void status(const std::string& line);

 private:
  Path run_;
  int64_t total_steps_;
  bool terminal_;
  bool drawn_ = false, set_aside_ = false;
  LogPace interval_pace_{10}, evaluation_pace_{10};  // the files have every line
  std::unique_ptr<TensorBoardWriter> tensorboard_;
  void clear();
  void append(const char* file, const std::string& line, uint64_t& bytes, TrainState& state);
};

/// "1:02:03", "4:05", "7 s".
std::string format_duration(double seconds);

}  // namespace lithe
