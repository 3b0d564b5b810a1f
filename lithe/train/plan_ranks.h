// What a recipe will cost on several ranks, which divide the parts of a step or a model: memory, time and efficiency,
// before it runs.
#pragma once

#include "lithe/base/json.h"
#include "lithe/recipe/recipe.h"
#include "lithe/train/plan.h"

namespace lithe {

/// Between any two ranks: a message of n bytes takes latency + n / bandwidth seconds.
struct Network {
  double bandwidth = 0, latency = 0;  // bytes/s, seconds
};
/// "25GB/s,2us", "10Gbit/s,50us". Fails (usage) on anything else.
Network parse_network(const std::string& text);

struct RanksPlan {
  ParallelConfig parallel;  // of the model's copies: data says how many
  int64_t parts = 0;        // of a step, of the copy that has most
  MemoryUse memory;         // of the rank that needs most
  /// Seconds of a step: of the slowest rank; `waiting`: of stages of a pipeline, for the first and the last part.
  double compute = 0, optimizer = 0, transfer = 0, latency = 0, waiting = 0;
  int64_t messages = 0, bytes = 0;              // that the busiest rank waits for in a step
  double even_compute = 0, even_optimizer = 0;  // seconds, were the work of one rank divided evenly
  bool even = true;                             // all ranks have as many parts
  double efficiency = 1;                        // tokens/s over those of as many ranks alone
  int64_t ranks() const { return parallel.data * parallel.model(); }
  double seconds() const { return compute + optimizer + transfer + latency + waiting; }
  /// What most of the lost time goes to.
  std::string bottleneck() const;
};

/// Of one rank with a whole model; then of 1, 2, 4 ... copies of the model as train.parallel divides it, as far as the
/// step has parts for, and of as many as `ranks` hold. Rates are this machine's, measured for a moment; messages are
/// counted as the run will send them, and nothing hides behind the backward pass. Fails (usage) where the recipe does
/// not say enough, has too few parts, or needs another number of ranks.
std::vector<RanksPlan> plan_ranks(Recipe recipe, int ranks, const Network& network);

/// All divisions of `ranks` by powers of two that the recipe's model and step take, the fastest first; those whose rank
/// needs more than `budget` bytes (0: no limit) are left out. data takes what the others leave. Fails (usage) where
/// none is left.
std::vector<RanksPlan> propose_divisions(Recipe recipe, int ranks, const Network& network, int64_t budget);

/// data, tensor, pipeline, sequence and expert, by name.
std::vector<std::pair<const char*, int64_t>> division_sizes(const ParallelConfig& parallel);
/// "data 8, tensor 2".
std::string division_text(const ParallelConfig& parallel);

Json ranks_json(const std::vector<RanksPlan>& plans, const Recipe& recipe);

}  // namespace lithe
