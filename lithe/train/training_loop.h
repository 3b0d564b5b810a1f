// The loop of one training: steps, what is due between them, checkpoints, and what keeps it stable.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "lithe/train/adapters.h"
#include "lithe/train/plan.h"
#include "lithe/train/rounded_training.h"
#include "lithe/train/run_log.h"
#include "lithe/train/run_result.h"
#include "lithe/train/schedule.h"
#include "lithe/train/sharded_weights.h"
#include "lithe/train/step.h"
#include "lithe/train/trainer.h"
#include "lithe/train/training_data.h"

namespace lithe {

/// One training from the state that it begins with to its end; train() prepares and reports it.
class TrainingLoop {
 public:
  TrainingLoop(TrainRun run, TrainingData data, Plan plan);

  /// Takes the weights and the state to begin with: a checkpoint's, a pre-trained run's, or new ones.
  void begin(const Path& checkpoint);

  /// What it left when it ended, none when there is more to do.
  std::optional<TrainResult> finished() const { return done() ? finished_result(run_.out, so_far()) : std::nullopt; }

  /// Says what becomes of a run whose end is another now.
  void extend(const std::string& difference) const;

  /// go() has begun: result.json says "running".
  bool running() const { return running_; }

  /// Steps until the run is done or asked to stop; what happens stands in the run's directory.
  TrainResult go();

  /// Where the run stands, for its result also when it ends by an error.
  TrainResult so_far() const;

 private:
  using Clock = std::chrono::steady_clock;

  TrainRun run_;
  TrainingData data_;
  Plan plan_;
  const TrainConfig& config_;
  int64_t stage_ = 0;  // growths that the model has behind it
  std::unique_ptr<Model> model_;
  std::unique_ptr<TrainedObjective> objective_;
  std::unique_ptr<RoundedWeights> rounded_;
  std::unique_ptr<Adapters> adapters_;  // null: none
  std::unique_ptr<RankSum> ranks_;
  std::unique_ptr<ShardedWeights> shards_;  // null: every rank has all weights
  std::unique_ptr<AdamW> optimizer_;
  std::optional<CarriedState> carried_;  // of the lanes
  Schedule schedule_;
  int64_t total_steps_ = 0, eval_steps_ = 0, interval_tokens_ = 0;
  std::vector<std::pair<std::string, double>> metrics_;  // of the last evaluation of a task
  TrainState state_;
  std::optional<RunLog> log_;  // of the rank that speaks for the job
  std::unique_ptr<Prefetcher> prefetch_;
  int64_t prefetched_ = -1;  // prefetch_ gives the step that begins at this micro-batch next
  bool cannot_sample_ = false;
  // As far as the ranks of a job have agreed on them.
  int agreed_signal_ = 0;
  bool agreed_late_ = false;
  int64_t saved_step_ = -1;
  bool running_ = false, told_to_stop_ = false;  // told_to_stop_: by TrainRun::on_step
  double last_norm_ = 0;                         // of the gradients of the last step
  double elapsed_before_ = 0;
  Clock::time_point start_ = Clock::now(), interval_start_ = start_;

  IntegerWeights integers_;  // that the adapters are trained over

  // What checkpoints do not hold must be what it was.
  void check_base(const TrainState& state) const;
  // A model of that stage, with new parameters.
  void make(int64_t stage);
  ModelOptions model_options() const;
  // Weights are made to be saved, and by no other file: the model has shapes alone, and they are written layer by
  // layer.
  bool only_begins() const;

  // A checkpoint is made before the model grows, at the step after which it does.
  void load(const Path& checkpoint);

  // What was best is of another model. Carried states begin anew.
  void grow();

  void publish(const Path& checkpoint) const;
  std::string adapter_base() const;
  void save_model(const Path& file) const;
  CarriedState* carried() { return carried_ ? &*carried_ : nullptr; }
  double elapsed() const;
  bool done() const;
  // Ranks come to know what the clock and the signals say to others, and go on or stop together.
  void agree();
  bool everywhere(bool mine) const;
  // Holds a share of the model that the rank which speaks for the job writes, and runs what that runs.
  bool answers() const;
  bool late() const;
  int stopping() const;

  // Of the next step, those that this rank runs.
  std::vector<Batch> next_batches();

  // One optimiser step. False when it was taken back because of a loss spike.
  bool step();
  // What the loss of the next step is multiplied by, after one that it was multiplied by `factor` in.
  void scale_loss(double factor, bool overflowed);
  void log_interval();

  // What is due between steps: evaluation and samples. Idempotent per step, so that a resumed run does what
  // the stopped one had not done yet. False when asked to stop.
  bool duties(bool final);
  class Averaged;
  bool evaluate();
  void save();
  // Calls TrainRun::on_step. False when it wants no more.
  bool report_step();

  // ---- stability.cpp

  // The parameters are still those before the step, and the step is a pure function of them: run it again
  // with every value checked.
  [[noreturn]] void trace_divergence(const StepBatches& batches, int64_t number, int64_t first_batch, double loss,
                                     double norm);
  // The limit that the loss of a spike is above; none where it is none.
  std::optional<double> spike(double loss);
  void roll_back(const RunLog::Spike& spike);
  void watch(double loss);
  void check_finite(bool finite, const std::string& what);
};

}  // namespace lithe
