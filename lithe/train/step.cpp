#include "lithe/train/step.h"

#include <algorithm>
#include <utility>

#include "lithe/base/tree_sum.h"
#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

double number_of(const Var& scalar) {
  double out = 0;
  if (!scalar.value().is_meta())
    dispatch_float(scalar.dtype(), [&]<class T>() { out = double(scalar.value().data<T>()[0]); });
  return out;
}

void add_to(Statistic& sum, const Statistic& more) {
  if (sum.sums.empty()) sum.sums.resize(more.sums.size(), 0);
  check(sum.sums.size() == more.sums.size(), "step", "a statistic of ", sum.sums.size(), " numbers was given ",
        more.sums.size());
  for (size_t i = 0; i < more.sums.size(); ++i) sum.sums[i] += more.sums[i];
  sum.weight += more.weight;
}

// A head tied to the table gives this row a gradient, too.
void clear_zero_rows(const Model& model) {
  for (const Parameter& p : model.parameters().all()) {
    if (p.zero_row < 0) continue;
    if (const Tensor gradient = p.master.grad(); gradient.defined() && !gradient.is_meta())
      fill_zero(gradient.slice(p.zero_row, p.zero_row + 1));
  }
}

struct MicroBatchSum {
  StepLosses losses;
  Gradients gradients;
  MicroBatchSum& operator+=(MicroBatchSum&& other) {
    losses += other.losses;
    gradients += std::move(other.gradients);
    return *this;
  }
};

}  // namespace

StepLosses& StepLosses::operator+=(const StepLosses& other) {
  objective += other.objective;
  for (const auto& [name, value] : other.auxiliary) auxiliary[name] += value;
  for (const auto& [key, statistic] : other.statistics) add_to(statistics[key], statistic);
  return *this;
}

Gradients& Gradients::operator+=(Gradients&& other) {
  check(of.size() == other.of.size(), "step", "gradients of ", of.size(), " and of ", other.of.size(),
        " parameters are not of one model");
  for (size_t i = 0; i < of.size(); ++i) {
    Tensor right = std::move(other.of[i]);
    if (!of[i].defined())
      of[i] = std::move(right);
    else if (right.defined())
      kernels::add({.a = of[i], .b = right, .out = of[i]});
  }
  return *this;
}

Gradients take_gradients(const Model& model, const TrainedObjective& objective) {
  Gradients out;
  for (const Parameters* parameters : {&model.parameters(), &objective.parameters()})
    for (const Parameter& p : parameters->all()) {
      const GradRef& slot = p.master.ref();
      out.of.push_back(slot ? std::exchange(slot->grad, Tensor()) : Tensor());
    }
  return out;
}

void put_gradients(const Model& model, const TrainedObjective& objective, Gradients gradients) {
  size_t i = 0;
  for (const Parameters* parameters : {&model.parameters(), &objective.parameters()})
    for (const Parameter& p : parameters->all()) {
      Tensor gradient = std::move(gradients.of[i++]);
      if (p.master.ref()) p.master.ref()->grad = std::move(gradient);
    }
}

int64_t labels_of(const std::vector<DeviceBatch>& micro_batches) {
  int64_t labelled = 0;
  for (const DeviceBatch& batch : micro_batches) labelled += batch.labelled;
  return labelled;
}

StepLosses run_micro_batch(const Model& model, const TrainedObjective& objective, const DeviceBatch& batch,
                           const MicroBatchPlace& place, const TrainConfig& config, CarriedState* carried) {
  step_context() = {uint64_t(config.seed), uint64_t(place.step) * uint64_t(place.of) + uint64_t(place.index)};
  const double scale = place.loss_scale / double(std::max<int64_t>(place.labelled, 1)),
               share = place.loss_scale / double(place.of);
  StepLosses out;
  Tape tape;
  const Var loss = [&] {  // rows live on only where the tape keeps them
    Pass pass;
    objective.want(model, pass);
    pass.want_statistics();
    DecodeState* state = carried ? &carried->enter(batch) : nullptr;
    const ModelInput& whole = batch.input;
    const Rows rows = model.run(state ? batch.continuing(model, *state) : whole, pass, state);
    const Var of_objective = objective.loss(
        {model, rows, pass, whole}, batch.targets,
        {.smoothing = config.label_smoothing, .scale = scale, .sums = &out.objective, .parts = &out.auxiliary});
    if (place.loss_scale != 1)
      for (auto& [name, value] : out.auxiliary) value /= place.loss_scale;
    for (const auto& [name, value] : pass.losses()) out.auxiliary[name] += number_of(value) / double(place.of);
    for (const auto& [key, statistic] : pass.statistics()) out.statistics[key].add(statistic.means(), statistic.weight);
    return Model::with_losses(of_objective, pass, share);
  }();
  tape.backward(loss);
  if (carried) carried->leave(batch);
  return out;
}

StepLosses accumulate_gradients(const Model& model, const TrainedObjective& objective,
                                const std::vector<DeviceBatch>& micro_batches, const TrainConfig& config, int64_t step,
                                CarriedState* carried, double loss_scale) {
  const auto count = int64_t(micro_batches.size());
  MicroBatchPlace place{.step = step, .of = count, .labelled = labels_of(micro_batches), .loss_scale = loss_scale};
  TreeSum<MicroBatchSum> sum;
  for (; place.index < count; ++place.index) {
    StepLosses losses = run_micro_batch(model, objective, micro_batches[size_t(place.index)], place, config, carried);
    sum.add({std::move(losses), take_gradients(model, objective)});
  }
  MicroBatchSum total = sum.take();
  put_gradients(model, objective, std::move(total.gradients));
  clear_zero_rows(model);
  return std::move(total.losses);
}

}  // namespace lithe
