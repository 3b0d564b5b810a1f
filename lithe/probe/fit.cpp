#include "lithe/probe/fit.h"

#include <algorithm>

#include "lithe/base/stop.h"
#include "lithe/data/permutation.h"
#include "lithe/train/optimizer.h"

namespace lithe::probe {

void fit(Parameters& parameters, int64_t items, const FitConfig& config,
         const std::function<Var(const std::vector<int64_t>&)>& loss) {
  check(items > 0 && config.batch > 0 && config.epochs > 0, "probe", "nothing to train on: ", items, " items in ",
        config.epochs, " epochs of batches of ", config.batch);
  TrainConfig train;
  train.adam_beta1 = 0.9, train.adam_beta2 = 0.999, train.weight_decay = 0, train.max_grad_norm = 0;
  AdamW optimizer(parameters, train);
  const int64_t batches = (items + config.batch - 1) / config.batch,
                epochs = std::max(config.epochs, (config.least_steps + batches - 1) / batches),
                steps = batches * epochs;
  int64_t step = 0;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    check_not_stopped("probe", "no page was written");
    const std::vector<int64_t> order = permutation({config.seed, uint64_t(epoch), 0, purpose_of("probe.order")}, items);
    for (int64_t b = 0; b < batches; ++b) {
      const auto begin = order.begin() + b * config.batch,
                 end = order.begin() + std::min(items, (b + 1) * config.batch);
      Tape tape;
      tape.backward(loss({begin, end}));
      optimizer.step(step + 1, config.learning_rate * (1 - double(step) / double(steps)), 0);
      ++step;
    }
  }
}

}  // namespace lithe::probe
