#include "lithe/train/step.h"

#include <algorithm>

#include "lithe/ops/basic.h"

namespace lithe {
namespace {

double number_of(const Var& scalar) {
  double out = 0;
  if (!scalar.value().is_meta())
    dispatch_float(scalar.dtype(), [&]<class T>() { out = double(scalar.value().data<T>()[0]); });
  return out;
}

}  // namespace

StepLosses accumulate_gradients(const Model& model, const Objective& objective,
                                const std::vector<DeviceBatch>& micro_batches, const TrainConfig& config, int64_t step,
                                CarriedState* carried) {
  int64_t labelled = 0;
  for (const DeviceBatch& batch : micro_batches) labelled += batch.labelled;
  const double scale = 1 / double(std::max<int64_t>(labelled, 1));
  StepLosses total;
  for (size_t i = 0; i < micro_batches.size(); ++i) {
    const DeviceBatch& batch = micro_batches[i];
    step_context() = {uint64_t(config.seed), uint64_t(step) * micro_batches.size() + i};
    Tape tape;
    LossSums sums;
    const Var loss = [&] {  // rows live on only where the tape keeps them
      Pass pass;
      model.want_exits(pass);
      pass.want_statistics();
      DecodeState* state = carried ? &carried->enter(batch) : nullptr;
      const Rows rows = rows_of(model, batch, pass, state);
      Var of_objective = objective.loss(model, rows, batch.targets(),
                                        {.smoothing = config.label_smoothing, .scale = scale, .sums = &sums});
      for (size_t e = 0; e < model.exits().size(); ++e) {
        const StackExit& exit = model.exits()[e];
        LossSums of_exit;
        const Var loss = objective.loss(
            model, model.exit_rows(pass, int64_t(e), rows.sequences), batch.targets(),
            {.smoothing = config.label_smoothing, .scale = scale * exit.weight, .sums = &of_exit, .exit = int64_t(e)});
        of_objective = add(of_objective, loss);
        total.auxiliary[cat("exit_", exit.layer + 1)] += of_exit.loss * scale;
      }
      for (const auto& [name, value] : pass.losses())
        total.auxiliary[name] += number_of(value) / double(micro_batches.size());
      for (const auto& [key, statistic] : pass.statistics())
        total.statistics[key].add(statistic.means(), statistic.weight);
      return Model::with_losses(of_objective, pass, 1 / double(micro_batches.size()));
    }();
    tape.backward(loss);
    if (carried) carried->leave(batch);
    total.objective += sums;
  }
  for (const Parameter& p : model.parameters().all()) {  // a head tied to the table gives this row a gradient, too
    if (p.zero_row < 0) continue;
    if (const Tensor gradient = p.master.grad(); gradient.defined() && !gradient.is_meta())
      fill_zero(gradient.slice(p.zero_row, p.zero_row + 1));
  }
  return total;
}

}  // namespace lithe
