#include "lithe/compare/supernet.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/log.h"
#include "lithe/base/progress.h"
#include "lithe/base/stop.h"
#include "lithe/model/safetensors.h"
#include "lithe/ops/basic.h"
#include "lithe/train/schedule.h"
#include "lithe/train/step.h"

namespace lithe::compare {
namespace {

constexpr int64_t kSaveSteps = 200;

}  // namespace

// spec: nas.search | search | a super-network whose slices are the candidates | TB 6.4.6
Supernet::Supernet(const std::vector<ModelConfig>& candidates, const TrainConfig& train) : train_(train) {
  check_usage(train.auxiliaries().empty(), "search",
              "train.auxiliary_objectives have parameters for one model, and a super-network is many; leave them out");
  check_usage(!candidates.empty(), "search", "a super-network needs candidates");
  check_usage(train.optimizer_states == "f32", "search",
              "a super-network shares slices of Adam's moments, which the blocks of train.optimizer_states ",
              train.optimizer_states, " do not follow; leave that out, or the super-network (supernet.steps: 0)");
  check_usage(!train.optimizer_in_backward, "search",
              "a super-network clips the norm of all gradients; leave train.optimizer_in_backward out");
  std::map<std::string, Axes> largest;
  for (const ModelConfig& config : candidates) {
    const Model sizes(config, {.device = Device::meta});
    for (const Parameter& p : sizes.parameters().all()) {
      const auto [at, first] = largest.emplace(p.name, p.axes);
      at->second = larger_of(at->second, p.axes, p.name);
    }
  }
  const DType dtype = train.parameter_dtype();
  for (const auto& [name, axes] : largest) {
    const Shape shape = shape_of(axes);
    shared_[name] = {axes, zeros(shape, dtype), zeros(shape, dtype), zeros(shape, dtype)};
  }
  // Each tensor starts as that of the largest candidate that has it, and what none reaches as other small numbers.
  for (auto& [name, tensors] : shared_) {
    const RandomKey key{.seed = uint64_t(train.seed), .purpose = purpose_of("supernet." + name)};
    if (tensors.value.shape().rank() == 2)
      for (int64_t i = 0; i < tensors.value.numel(); ++i)
        set_value(tensors.value, i, 0.02 * random_normal(key, uint64_t(i)));
  }
  std::map<std::string, int64_t> filled;
  for (const ModelConfig& config : candidates) {
    const Model start(config, {.dtype = dtype, .seed = uint64_t(train.seed)});
    for (const Parameter& p : start.parameters().all())
      if (int64_t& numel = filled[p.name]; p.master.shape().numel() > numel) {
        numel = p.master.shape().numel();
        slice_of(p).put(of(p.name).value, p.master.value());
      }
  }
}

int64_t Supernet::parameters() const {
  int64_t count = 0;
  for (const auto& [name, tensors] : shared_) count += tensors.value.numel();
  return count;
}

const Supernet::Shared& Supernet::of(const std::string& name) const {
  const auto found = shared_.find(name);
  check_usage(
      found != shared_.end(), "search", "the super-network has no '", name,
      "', which a candidate has: two choices make it together; leave the super-network out (supernet.steps: 0)");
  return found->second;
}

Slice Supernet::slice_of(const Parameter& of_candidate) const {
  return Slice::first(of(of_candidate.name).axes, of_candidate.axes);
}

void Supernet::give(Model& model) const {
  for (Parameter& p : model.parameters().all()) p.assign(slice_of(p).taken(of(p.name).value));
  model.parameters().refresh_views();
}

std::unique_ptr<Model> Supernet::model(const ModelConfig& candidate) const {
  auto out = std::make_unique<Model>(
      candidate, ModelOptions{.dtype = train_.parameter_dtype(), .compute = train_.compute(), .initialised = false});
  give(*out);
  return out;
}

bool Supernet::train(int64_t steps, const std::function<ModelConfig(int64_t)>& candidate, const BatchSource& batches,
                     const Path& file) {
  restore(file);
  LogPace pace;
  const Schedule schedule{.type = train_.lr_scheduler_type,
                          .peak = train_.learning_rate,
                          .floor = train_.min_learning_rate,
                          .warmup = train_.warmup_steps,
                          .total = steps,
                          .decay_ratio = train_.decay_ratio,
                          .restarts = train_.num_cycles};
  while (done_ < steps) {
    if (stop_signal()) {
      save(file);
      return false;
    }
    const int64_t step = done_ + 1, parts = train_.gradient_accumulation_steps, each = batches.batches_per_epoch();
    Model model(
        candidate(step),
        {.dtype = train_.parameter_dtype(), .compute = train_.compute(), .trainable = true, .initialised = false});
    give(model);
    const TrainedObjective objective(train_, model);
    AdamW optimizer(model.parameters(), train_);
    const std::map<std::string, Tensor> moments = optimizer.state();
    const auto move_moments = [&](bool in) {
      for (const auto& [name, tensor] : moments) {
        const Parameter& p = *model.parameters().find(name.substr(2));
        const Shared& shared = of(p.name);
        const Tensor& all = name[0] == 'm' ? shared.m : shared.v;
        if (in)
          copy_into(tensor, slice_of(p).taken(all));
        else
          slice_of(p).put(all, tensor);
      }
    };
    move_moments(true);
    std::vector<DeviceBatch> micro;
    for (int64_t i = (step - 1) * parts; i < step * parts; ++i)
      micro.push_back(to_device(batches.batch(i / each, i % each), model));
    const StepLosses losses = accumulate_gradients(model, objective, micro, train_, step);
    const double norm = optimizer.gradient_norm();
    if (!std::isfinite(norm))
      throw Error("search", cat("the super-network diverged at step ", step, "; lower train.learning_rate"),
                  ExitCode::diverged);
    optimizer.step(step, schedule.at(step), norm);
    for (const Parameter& p : model.parameters().all()) slice_of(p).put(of(p.name).value, p.numbers());
    move_moments(false);
    done_ = step;
    if ((step % train_.logging_steps == 0 || step == steps) && pace.due(step, steps))
      log_info("super-network: step ", step, " of ", steps, ", loss ",
               losses.objective.loss / double(std::max<int64_t>(losses.objective.labels, 1)));
    if (step % kSaveSteps == 0 || step == steps) save(file);
  }
  return true;
}

void Supernet::save(const Path& file) const {
  std::map<std::string, Tensor> out;
  for (const auto& [name, tensors] : shared_) {
    out["p." + name] = tensors.value;
    out["m." + name] = tensors.m;
    out["v." + name] = tensors.v;
  }
  const Tensor step = empty({1}, DType::i32);
  set_value(step, 0, double(done_));
  out["step"] = step;
  write_safetensors(file, out, {{"format", "lithe"}});
}

void Supernet::restore(const Path& file) {
  if (!std::filesystem::exists(file)) return;
  const SafetensorsFile in(file);
  for (const auto& [name, tensors] : shared_) {
    in.read("p." + name, tensors.value);
    in.read("m." + name, tensors.m);
    in.read("v." + name, tensors.v);
  }
  const Tensor step = empty({1}, DType::i32);
  in.read("step", step);
  done_ = int64_t(value_at(step, 0));
}

}  // namespace lithe::compare
