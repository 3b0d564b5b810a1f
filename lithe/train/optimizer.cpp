#include "lithe/train/optimizer.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/threads.h"
#include "lithe/kernels/optimizer/optimizer.h"
#include "lithe/model/layer_of.h"

namespace lithe {
namespace {

// Norms, biases and small matrices are a thousandth of a model and keep f32.
constexpr int64_t kLeastInt8 = 4096;

}  // namespace

AdamW::AdamW(const std::vector<Parameters*>& parameters, const TrainConfig& config, bool moments, const RankSum* ranks)
    : parameters_(parameters), config_(config), ranks_(ranks && ranks->sharded() ? ranks : nullptr) {
  const MemoryScope memory(MemoryClass::optimizer);
  for (Parameters* of : parameters)
    for (Parameter& p : of->all())
      if (p.master.needs_grad()) add(p, moments);  // else frozen
  check_usage(!slots_.empty(), "train", "train.freeze leaves no parameter to train; freeze fewer");
}

void AdamW::add(Parameter& p, bool moments) {
  if (moments) p.split();
  const Tensor& x = p.master.value();
  const DType wide = wide_of(x.dtype());
  const int rank = ranks_ ? ranks_->mover_of(p) : 0;
  const bool mine = !ranks_ || rank == ranks_->rank();
  const Device device = moments ? x.device() : Device::meta;
  const auto fresh = [&](const Shape& shape, DType dtype) {
    return mine ? zeros(shape, dtype, device) : Tensor::outline(shape, dtype);
  };
  Slot slot{.parameter = &p, .rank = rank};
  if (config_.optimizer_states == "int8" && x.shape().rank() >= 2 && x.numel() >= kLeastInt8) {
    const Shape blocks{kernels::state_blocks(x.numel())};
    slot.m = fresh(x.shape(), DType::i8);
    slot.v = fresh(x.shape(), DType::u8);
    slot.m_scale = fresh(blocks, DType::f32);
    slot.v_scale = fresh(blocks, DType::f32);
  } else {
    slot.m = fresh(x.shape(), wide);
    slot.v = fresh(x.shape(), wide);
  }
  if (averages()) slot.average = fresh(x.shape(), wide);
  slots_.push_back(std::move(slot));
}

double AdamW::gradient_norm() const {
  std::vector<double> squares(slots_.size(), 0);
  for (size_t i = 0; i < slots_.size(); ++i) {
    squares[i] = slots_[i].squares.value_or(0);
    if (const Tensor g = slots_[i].parameter->master.grad(); here(slots_[i]) && g.defined() && !g.is_meta())
      squares[i] = kernels::sum_of_squares(g);
  }
  double sum = 0;  // in the order of parameters, whoever has them
  const auto all = ranks_ ? ranks_->numbers_of_all(squares) : std::vector<std::vector<double>>(1, squares);
  for (size_t i = 0; i < slots_.size(); ++i) sum += all[ranks_ ? size_t(slots_[i].rank) : 0][i];
  return std::sqrt(sum);
}

double AdamW::gradient_norm(const Division* division) const {
  if (!division) return gradient_norm();
  std::vector<std::pair<const Parameter*, double>> squares;
  for (const Slot& slot : slots_)
    if (const Tensor g = slot.parameter->master.grad(); g.defined() && !g.is_meta())
      squares.emplace_back(slot.parameter, kernels::sum_of_squares(g));
  return division->norm(squares);
}

void AdamW::move(Slot& slot, int64_t step, double learning_rate, double scale) {
  Parameter& p = *slot.parameter;
  const Tensor gradient = p.master.grad();
  if (!gradient.defined()) return;  // the part was not used in this step, was moved, or another rank moves it
  const Parameter::Storage to = p.storage();
  kernels::adamw({.param = to.numbers,
                  .gradient = gradient,
                  .m = slot.m,
                  .v = slot.v,
                  .shadow = to.rounded,
                  .lr = learning_rate,
                  .beta1 = config_.adam_beta1,
                  .beta2 = config_.adam_beta2,
                  .eps = config_.adam_epsilon,
                  .weight_decay = p.decay ? config_.weight_decay : 0,
                  .gradient_scale = scale,
                  .step = step,
                  .m_scale = slot.m_scale,
                  .v_scale = slot.v_scale,
                  .rest = to.rest});
  p.master.ref()->grad = Tensor();
}

void AdamW::step_layer(int64_t layer, int64_t step, double learning_rate) {
  const auto each = [&](const auto& f) {
    for (Slot& slot : slots_) {
      const Parameter& p = *slot.parameter;
      if (layer_of(p.name) == layer && !p.means && p.zero_row < 0 && p.master.grad().defined()) f(slot);
    }
  };
  each([&](Slot& slot) {
    const Tensor g = slot.parameter->master.grad();
    slot.squares = g.is_meta() ? 0 : kernels::sum_of_squares(g);
  });
  const auto finite = [](const Slot& slot) { return std::isfinite(slot.squares.value_or(0)); };
  if (std::all_of(slots_.begin(), slots_.end(), finite)) each([&](Slot& slot) { move(slot, step, learning_rate, 1); });
}

void AdamW::step(int64_t step, double learning_rate, double norm, double loss_scale) {
  const double clipped = config_.max_grad_norm > 0 && norm > config_.max_grad_norm ? config_.max_grad_norm / norm : 1,
               scale = clipped / loss_scale;
  for (Slot& slot : slots_) {
    check(!slot.squares || !slot.parameter->master.grad().defined(), "optimizer", "a gradient of ",
          slot.parameter->name, " came after its layer");
    move(slot, step, learning_rate, scale);
    slot.squares.reset();
  }
  if (ranks_) ranks_->share_moved();
  for (Parameters* parameters : parameters_) parameters->stepped();
}

namespace {

constexpr int64_t kGrain = 4096;  // numbers of an average that a thread takes at a time

// run(average, numbers, count) of every parameter that has an average, piece by piece.
template <class Slots, class Run>
void each_average(const Slots& slots, Run&& run) {
  for (const auto& slot : slots) {
    const Tensor& x = slot.parameter->master.value();
    if (!slot.average || x.is_meta()) continue;
    const auto walk = [&]<class T>(T* average, T* numbers) {
      parallel_for(x.numel(), kGrain,
                   [&](int64_t begin, int64_t end, int) { run(average + begin, numbers + begin, end - begin); });
    };
    if (x.dtype() == DType::f64)
      walk(slot.average.template data<double>(), x.data<double>());
    else
      walk(slot.average.template data<float>(), x.data<float>());
  }
}

}  // namespace

void AdamW::average(int64_t step) {
  const double decay = step == 1 ? 0 : std::min(config_.ema_decay, (1.0 + double(step)) / (10.0 + double(step)));
  each_average(slots_, [&]<class T>(T* average, const T* x, int64_t count) {
    for (int64_t i = 0; i < count; ++i) average[i] += T(1 - decay) * (x[i] - average[i]);
  });
}

void AdamW::exchange() {
  each_average(slots_, [](auto* a, auto* b, int64_t count) { std::swap_ranges(a, a + count, b); });
  for (Parameters* parameters : parameters_) parameters->refresh_views();
}

void AdamW::drop_gradients() {
  for (Parameters* parameters : parameters_) parameters->drop_gathered();
  for (Slot& slot : slots_) slot.parameter->master.ref()->grad = Tensor(), slot.squares.reset();
}

std::map<std::string, Tensor> AdamW::Slot::named() const {
  std::map<std::string, Tensor> out{{"m." + parameter->name, m}, {"v." + parameter->name, v}};
  if (average) out["average." + parameter->name] = average;
  if (m_scale) out["m_scale." + parameter->name] = m_scale, out["v_scale." + parameter->name] = v_scale;
  return out;
}

std::map<std::string, Tensor> AdamW::state() const {
  std::map<std::string, Tensor> out;
  for (const Slot& slot : slots_)
    if (here(slot)) out.merge(slot.named());
  return out;
}

void AdamW::with_whole_state(const std::function<void(const std::map<std::string, PendingTensor>&)>& write) const {
  std::map<std::string, PlacedTensor> all;
  for (const Slot& slot : slots_)
    for (const auto& [name, tensor] : slot.named())
      all[name] = {{tensor.shape(), tensor.dtype(),
                    [tensor = tensor] {
                      if (!tensor.is_meta()) return tensor;
                      const MemoryScope memory(MemoryClass::workspace);
                      return zeros(tensor.shape(), tensor.dtype());  // of moments that have no memory yet
                    }},
                   slot.rank};
  with_all_tensors(ranks_ ? ranks_->ranks() : nullptr, all, write);
}

}  // namespace lithe
