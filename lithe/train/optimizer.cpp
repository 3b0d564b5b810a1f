#include "lithe/train/optimizer.h"

#include <cmath>

#include "lithe/kernels/optimizer/optimizer.h"

namespace lithe {
namespace {

// Norms, biases and small matrices are a thousandth of a model and keep f32.
constexpr int64_t kLeastInt8 = 4096;

}  // namespace

AdamW::AdamW(const std::vector<Parameters*>& parameters, const TrainConfig& config, bool moments)
    : parameters_(parameters), config_(config) {
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
  const Device device = moments ? x.device() : Device::meta;
  const auto fresh = [&](const Shape& shape, DType dtype) { return zeros(shape, dtype, device); };
  if (config_.optimizer_states == "int8" && x.shape().rank() >= 2 && x.numel() >= kLeastInt8) {
    const Shape blocks{kernels::state_blocks(x.numel())};
    slots_.push_back({&p, fresh(x.shape(), DType::i8), fresh(x.shape(), DType::u8), fresh(blocks, DType::f32),
                      fresh(blocks, DType::f32)});
  } else {
    slots_.push_back({&p, fresh(x.shape(), wide), fresh(x.shape(), wide), {}, {}});
  }
}

double AdamW::gradient_norm() const {
  double sum = 0;
  for (const Slot& slot : slots_)
    if (const Tensor g = slot.parameter->master.grad(); g.defined() && !g.is_meta()) sum += kernels::sum_of_squares(g);
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

void AdamW::step(int64_t step, double learning_rate, double norm, double loss_scale) {
  const double clipped = config_.max_grad_norm > 0 && norm > config_.max_grad_norm ? config_.max_grad_norm / norm : 1,
               scale = clipped / loss_scale;
  for (Slot& slot : slots_) {
    Parameter& p = *slot.parameter;
    const Tensor gradient = p.master.grad();
    if (!gradient.defined()) continue;  // the part was not used in this step
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
  for (Parameters* parameters : parameters_) parameters->stepped();
}

void AdamW::drop_gradients() {
  for (Parameters* parameters : parameters_) parameters->drop_gathered();
  for (Slot& slot : slots_) slot.parameter->master.ref()->grad = Tensor();
}

std::map<std::string, Tensor> AdamW::state() const {
  std::map<std::string, Tensor> out;
  for (const Slot& slot : slots_) {
    out["m." + slot.parameter->name] = slot.m;
    out["v." + slot.parameter->name] = slot.v;
    if (!slot.m_scale) continue;
    out["m_scale." + slot.parameter->name] = slot.m_scale;
    out["v_scale." + slot.parameter->name] = slot.v_scale;
  }
  return out;
}

}  // namespace lithe
