// Training of a probe's few parameters.
#pragma once

#include <functional>

#include "lithe/nn/module.h"

namespace lithe::probe {

/// Shared by all probes: the order of an epoch's minibatches and the falling rate.
struct FitConfig {
  int64_t epochs = 5, batch = 64;
  int64_t least_steps = 0;  // with few items there are as many epochs as make these
  double learning_rate = 1e-3;
  uint64_t seed = 1;
};

/// Minibatches of `items` in an order that the seed and the epoch decide, Adam (0.9, 0.999) without weight decay, its
/// rate falling linearly to 0. loss(items of a minibatch) runs under a tape.
void fit(Parameters& parameters, int64_t items, const FitConfig& config,
         const std::function<Var(const std::vector<int64_t>&)>& loss);

}  // namespace lithe::probe
