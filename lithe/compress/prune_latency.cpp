// Which units stay under a budget of measured latency (prune_run.h).
#include <chrono>
#include <cmath>

#include "lithe/base/log.h"
#include "lithe/base/quiet_log.h"
#include "lithe/base/stop.h"
#include "lithe/compress/measured_model.h"
#include "lithe/compress/prune_run.h"
#include "lithe/infer/weights_file.h"

namespace lithe {
namespace {

constexpr int kTrials = 8;
constexpr double kCloseEnough = 0.01;   // shares of the counted budget
constexpr double kEnoughSeconds = 0.5;  // of turns: steps of small models differ by more than what is searched
constexpr int kMostTimes = 20;

}  // namespace

// Latency falls with what is counted, so that the share of it is searched by halves. Each trial is a real model, timed
// in turns with the one before pruning.
LatencyChoice choose_kept_by_latency(const Model& model, const std::vector<PruneGroup>& groups,
                                     const Importance& importance, const PruneRequest& request, const Recipe& recipe,
                                     double target) {
  const Path file = weights_file(request.model, request.weights);
  MeasuredModel whole(request.model, request.weights);
  const MeasuringData data = [&] {
    const QuietLog quiet;
    return measuring_data(recipe, load_tokenizers(request.model), 0, 1);
  }();
  PruneRequest counted = request;
  counted.budget = data.prompt.empty() ? "flops" : "memory";  // what a step of decoding waits for are its bytes
  const double all = budget_of(load_config(request.model / "config.json"), counted.budget);
  LatencyChoice best{.counted = counted.budget};
  double low = 0, high = 1, least = INFINITY;
  bool refused = false;
  for (int trial = 0; trial < kTrials && high - low > kCloseEnough; ++trial) {
    check_not_stopped("prune", "nothing was written");
    counted.to = trial == 0 ? target : (low + high) / 2;
    PruneKept kept;
    try {
      kept = choose_kept(model.config(), groups, importance, counted, counted.to * all);
    } catch (const Error& error) {
      if (error.code() != ExitCode::usage) throw;
      refused = true;
      low = counted.to;
      continue;
    }
    MeasuredModel smaller(prune(model, kept), file);
    const auto start = std::chrono::steady_clock::now();
    for (int times = 0; times < kMostTimes; ++times) {
      time_in_turns({&whole, &smaller}, data);
      if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > kEnoughSeconds) break;
    }
    const double before = whole.latency(), after = smaller.latency(), share = after / before;
    whole.forget_times();
    log_info("with ", counted.to, " of ", counted.budget, " a step takes ", share, " of the time");
    least = std::min(least, share);
    if (share > target) {
      high = counted.to;
      continue;
    }
    low = counted.to;
    best.kept = std::move(kept);
    best.share = counted.to, best.before = before, best.after = after;
  }
  check_usage(best.share > 0, "prune", "--to ", request.to, " of the latency was not reached: ",
              std::isfinite(least) ? cat("the fastest of the models that were timed takes ", least, " of the time")
                                   : std::string("no such model can be made"),
              refused ? ", and smaller ones cannot be made of these units" : "",
              "; take out more (--units heads,ffn,hidden,layers), or give a larger --to");
  return best;
}

}  // namespace lithe
