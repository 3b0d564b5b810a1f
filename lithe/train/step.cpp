#include "lithe/train/step.h"

#include <algorithm>

namespace lithe {

LossSums accumulate_gradients(const Model& model, const Objective& objective,
                              const std::vector<DeviceBatch>& micro_batches, const TrainConfig& config, int64_t step) {
  int64_t labelled = 0;
  for (const DeviceBatch& batch : micro_batches) labelled += batch.labelled;
  const double scale = 1 / double(std::max<int64_t>(labelled, 1));
  LossSums total;
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    const DeviceBatch& batch = micro_batches[i];
    step_context() = {uint64_t(config.seed), uint64_t(step) * micro_batches.size() + i};
    Tape tape;
    LossSums sums;
    const Var loss = [&] {  // rows live on only where the tape keeps them
      const Pass pass;
      return Model::with_losses(objective.loss(model, rows_of(model, batch, pass), batch.targets(),
                                               {.smoothing = config.label_smoothing, .scale = scale, .sums = &sums}),
                                pass, 1 / double(micro_batches.size()));
    }();
    tape.backward(loss);
    total += sums;
  }
  for (const Parameter& p : model.parameters().all()) {  // a head tied to the table gives this row a gradient, too
    if (p.zero_row < 0) continue;
    if (const Tensor gradient = p.master.grad(); gradient.defined() && !gradient.is_meta())
      fill_zero(gradient.slice(p.zero_row, p.zero_row + 1));
  }
  return total;
}

}  // namespace lithe
