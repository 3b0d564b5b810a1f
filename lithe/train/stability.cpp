// What keeps a training stable, or says why it is not.
#include <cmath>
#include <numeric>

#include "lithe/base/log.h"
#include "lithe/base/threads.h"
#include "lithe/parallel/gather.h"
#include "lithe/parallel/job.h"
#include "lithe/train/resume.h"
#include "lithe/train/training_loop.h"

namespace lithe {
namespace {

constexpr const char* kCalmer =
    "lower the learning rate, lengthen the warm-up or clip harder, in a run of its own (another --out; from_pretrained "
    "goes on from this run's weights)";

}  // namespace

// spec: train.stability | training | global-norm clipping, tracing of the first non-finite value, loss watchdog, spike
// rollback with batch skip | TB 6.3.4

void TrainingLoop::trace_divergence(const StepBatches& batches, int64_t number, int64_t first_batch, double loss,
                                    double norm) {
  optimizer_->drop_gradients();
  const std::string where =
      cat("at step ", number, " (micro-batches ", first_batch, "-", state_.micro_batches - 1, ")");
  if (model_->division() ||
      shards_)  // its ranks wait for each other in every layer: one that stops would leave the others there
    throw Error("diverged",
                cat(where, ": loss ", loss, ", gradient norm ", norm,
                    "; one process finds the first value (the same recipe without train.parallel); ", kCalmer),
                ExitCode::diverged);
  std::string found;
  try {
    const FiniteTrace trace;
    MicroBatchPlace place{.step = number, .index = batches.first, .of = batches.count, .labelled = batches.labelled};
    for (const DeviceBatch& batch : batches.own) {
      run_micro_batch(*model_, *objective_, batch, place, config_, carried());
      ++place.index;
    }
  } catch (const Error& error) {
    found = std::string(error.what()).substr(error.operation().size() + 2);
  }
  for (const std::string& of_rank : gather_bytes(job(), found))
    if (!of_rank.empty()) throw Error("diverged", cat(where, ": ", of_rank, "; ", kCalmer), ExitCode::diverged);
  throw Error("diverged",
              cat(where, ": loss ", loss, ", gradient norm ", norm,
                  "; no single value could be found when the step was run again"),
              ExitCode::diverged);
}

std::optional<double> TrainingLoop::spike(double loss) {
  const TrainConfig& c = config_;
  if (c.spike_deviations <= 0) return std::nullopt;
  std::vector<double>& window = state_.recent_losses;
  if (int64_t(window.size()) >= c.spike_window && state_.rollback_step >= 0) {
    const double n = double(window.size()), mean = std::accumulate(window.begin(), window.end(), 0.0) / n;
    double squares = 0;
    for (double v : window) squares += (v - mean) * (v - mean);
    if (const double limit = mean + c.spike_deviations * std::sqrt(squares / n); loss > limit) return limit;
  }
  window.push_back(loss);
  if (int64_t(window.size()) > c.spike_window) window.erase(window.begin());
  return std::nullopt;
}

void TrainingLoop::roll_back(const RunLog::Spike& spike) {
  optimizer_->drop_gradients();
  std::set<int64_t> skipped = state_.skipped;
  for (int64_t i = spike.first_batch; i <= spike.last_batch; ++i) skipped.insert(i);
  const int64_t rollbacks = state_.rollbacks + 1, target = spike.step;
  log_warning("loss spike at step ", spike.at, " (", spike.loss, ", above ", spike.limit, "): going back to step ",
              target, " and leaving micro-batches ", spike.first_batch, "-", spike.last_batch, " out");
  load(checkpoint_path(run_.out, target));
  state_.skipped = skipped;
  state_.rollbacks = rollbacks;
  state_.threads = threads();
  barrier(job());  // all have read what is written anew below
  if (log_) {
    log_.emplace(run_.out, &state_, total_steps_);
    log_->spike(spike, state_);
  }
  save();  // so that a resume knows what to leave out
  if (speaks_for_job()) drop_checkpoints_after(run_.out, target);
}

void TrainingLoop::watch(double loss) {
  const TrainConfig& c = config_;
  if (c.loss_watchdog_threshold <= 0) return;
  state_.steps_above_threshold = loss > c.loss_watchdog_threshold ? state_.steps_above_threshold + 1 : 0;
  if (state_.steps_above_threshold >= c.loss_watchdog_patience)
    throw Error(
        "watchdog",
        cat("the loss was above ", c.loss_watchdog_threshold, " for ", c.loss_watchdog_patience, " steps, up to step ",
            state_.step, " (now ", loss, "); lower the learning rate or raise train.loss_watchdog_threshold"),
        ExitCode::diverged);
}

void TrainingLoop::check_finite(bool finite, const std::string& what) {
  if (!finite)
    throw Error("diverged", cat("after step ", state_.step, ": ", what, " is not finite; ", kCalmer),
                ExitCode::diverged);
}

}  // namespace lithe
