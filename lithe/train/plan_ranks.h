// What a recipe will cost on several ranks that divide the parts of a step: memory, time and efficiency, before it
// runs.
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
  int ranks = 1;
  int64_t parts = 0;                                             // of a step, on the rank that has most
  MemoryUse memory;                                              // of the rank that needs most
  double compute = 0, optimizer = 0, transfer = 0, latency = 0;  // seconds of a step
  int64_t messages = 0, bytes = 0;                               // that the busiest rank sends or takes in a step
  double even_compute = 0, even_optimizer = 0;                   // seconds, were the work of one rank divided evenly
  bool even = true;                                              // all ranks have as many parts
  double efficiency = 1;                                         // tokens/s over those of as many ranks alone
  double seconds() const { return compute + optimizer + transfer + latency; }
  /// What most of the lost time goes to.
  std::string bottleneck() const;
};

/// Of 1, 2, 4 ... ranks, as far as the step has parts for, and of `ranks`. Rates are this machine's, measured for a
/// moment; messages are counted as the run will send them, and nothing hides behind the backward pass. Fails (usage)
/// where the recipe does not say enough, or has too few parts for `ranks`.
std::vector<RanksPlan> plan_ranks(Recipe recipe, int ranks, const Network& network);

Json ranks_json(const std::vector<RanksPlan>& plans, const Recipe& recipe);

}  // namespace lithe
