#include "lithe/compare/supernet.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/log.h"
#include "lithe/base/stop.h"
#include "lithe/model/safetensors.h"
#include "lithe/ops/basic.h"
#include "lithe/train/schedule.h"
#include "lithe/train/step.h"

namespace lithe::compare {
namespace {

constexpr int64_t kSaveSteps = 200;

// The first rows and columns of `large` and all of `small`, either way.
void copy_slice(const Tensor& large, const Tensor& small, bool to_small) {
  const int64_t rows = small.shape().rank() == 2 ? small.dim(0) : 1, cols = small.numel() / std::max<int64_t>(rows, 1),
                stride = small.shape().rank() == 2 ? large.dim(1) : cols;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      if (to_small)
        set_value(small, r * cols + c, value_at(large, r * stride + c));
      else
        set_value(large, r * stride + c, value_at(small, r * cols + c));
}

}  // namespace

// spec: nas.search | search | a super-network whose slices are the candidates | TB 6.4.6
Supernet::Supernet(const std::vector<ModelConfig>& candidates, const TrainConfig& train) : train_(train) {
  check_usage(!candidates.empty(), "search", "a super-network needs candidates");
  check_usage(train.optimizer_states == "f32", "search",
              "a super-network shares slices of Adam's moments, which the blocks of train.optimizer_states ",
              train.optimizer_states, " do not follow; leave that out, or the super-network (supernet.steps: 0)");
  std::map<std::string, Shape> shapes;
  for (const ModelConfig& config : candidates) {
    const Model sizes(config, {.device = Device::meta});
    for (const Parameter& p : sizes.parameters().all()) {
      const Shape& shape = p.master.shape();
      const auto [at, first] = shapes.emplace(p.name, shape);
      check_usage(at->second.rank() == shape.rank() && shape.rank() <= 2, "search", "'", p.name, "' is ", shape,
                  " in one candidate and ", at->second,
                  " in another: one set of weights cannot serve both; leave the super-network out (supernet.steps: 0)");
      if (shape.rank() == 2)
        at->second = Shape{std::max(shape[0], at->second[0]), std::max(shape[1], at->second[1])};
      else if (shape.rank() == 1)
        at->second = Shape{std::max(shape[0], at->second[0])};
    }
  }
  const DType dtype = train.parameter_dtype();
  for (const auto& [name, shape] : shapes)
    shared_[name] = {zeros(shape, dtype), zeros(shape, dtype), zeros(shape, dtype)};
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
        copy_slice(shared_.at(p.name).value, p.master.value(), false);
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

std::unique_ptr<Model> Supernet::model(const ModelConfig& candidate) const {
  auto out = std::make_unique<Model>(
      candidate, ModelOptions{.dtype = train_.parameter_dtype(), .compute = train_.compute(), .initialised = false});
  for (Parameter& p : out->parameters().all()) copy_slice(of(p.name).value, p.master.value(), true);
  out->parameters().refresh_shadows();
  return out;
}

bool Supernet::train(int64_t steps, const std::function<ModelConfig(int64_t)>& candidate, const BatchSource& batches,
                     const Path& file) {
  restore(file);
  const auto objective = make_objective(train_.objective);
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
    for (Parameter& p : model.parameters().all()) copy_slice(of(p.name).value, p.master.value(), true);
    model.parameters().refresh_shadows();
    AdamW optimizer(model.parameters(), train_);
    const std::map<std::string, Tensor> moments = optimizer.state();
    const auto move_moments = [&](bool in) {
      for (const auto& [name, tensor] : moments) {
        const Shared& shared = of(name.substr(2));
        copy_slice(name[0] == 'm' ? shared.m : shared.v, tensor, in);
      }
    };
    move_moments(true);
    std::vector<DeviceBatch> micro;
    for (int64_t i = (step - 1) * parts; i < step * parts; ++i)
      micro.push_back(to_device(batches.batch(i / each, i % each), Device::cpu));
    const StepLosses losses = accumulate_gradients(model, *objective, micro, train_, step);
    const double norm = optimizer.gradient_norm();
    if (!std::isfinite(norm))
      throw Error("search", cat("the super-network diverged at step ", step, "; lower train.learning_rate"),
                  ExitCode::diverged);
    optimizer.step(step, schedule.at(step), norm);
    for (const Parameter& p : model.parameters().all()) copy_slice(of(p.name).value, p.numbers(), false);
    move_moments(false);
    done_ = step;
    if (step % train_.logging_steps == 0 || step == steps)
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
