#include "lithe/train/rounded_training.h"

#include <fnmatch.h>

#include <cmath>

#include "lithe/base/did_you_mean.h"
#include "lithe/base/threads.h"
#include "lithe/model/packable.h"
#include "lithe/model/rounding.h"
#include "lithe/model/safetensors.h"
#include "lithe/model/tensor_stream.h"
#include "lithe/ops/weight_product.h"

namespace lithe {
namespace {

constexpr const char* kStepsFile = "rounding.safetensors";
constexpr double kRate = 10;  // weights that begin small grow by more than the learning rate lets ln |step| move

}  // namespace

// spec: hpc.qat | training | products read weights rounded as `lithe quantize` rounds them, and rows rounded to 8, 4 or
// 2 bits; gradients pass straight through inside the clip range; steps searched or learned | TB 6.4.9
class RoundedWeights::Rounded final : public View {
 public:
  Rounded(const Parameter& p, bool by_rows, const WeightIntegers& as, int64_t activation_bits, DType compute)
      : as_(as), activation_bits_(int(activation_bits)), copy_(empty(p.master.shape(), compute, p.master.device())) {
    const Shape shape = p.master.shape();
    matrix_ = {.format = as.format,
               .outputs = shape[by_rows ? 0 : 1],
               .inputs = shape[by_rows ? 1 : 0],
               .group = as.group,
               .by_rows = by_rows,
               .name = p.name};
    steps_ = empty({matrix_.outputs, groups()}, DType::f32, p.master.device());
  }

  /// The steps are learned from now on.
  void learn(const Scope& scope) {
    const Axes all{Axis(matrix_.outputs * groups())};
    log_steps_ = scope.parameter("log_step", all, InitRole::zeros);
    signs_ = scope.parameter("sign", all, InitRole::ones);
    signs_->master = Var(signs_->master.value());
  }
  void begin(const Tensor& master) {
    if (!log_steps_ || master.is_meta()) return;
    const Tensor searched = scales_of(round_matrix(master, matrix_, as_));
    for (int64_t i = 0; i < searched.numel(); ++i) {
      const double step = value_at(searched, i);
      set_value(signs_->master.value(), i, step < 0 ? -1 : step > 0 ? 1 : 0);
      set_value(log_steps_->master.value(), i, step ? std::log(std::abs(step)) / kRate : 0);
    }
    refresh(master);
  }
  const std::string& name() const { return matrix_.name; }
  /// In the type of `numbers`.
  Tensor rounded(const Tensor& numbers) const {
    const Tensor out = empty_like(numbers);
    write_numbers(round_at_steps(numbers, matrix_, as_, steps_), matrix_, out);
    return out;
  }
  const Tensor& steps() const { return steps_; }

  void refresh(const Tensor& master) override {
    const MemoryScope memory(MemoryClass::workspace);
    if (master.is_meta()) return;
    for (int64_t i = 0; log_steps_ && i < steps_.numel(); ++i)
      set_value(steps_, i,
                value_at(signs_->master.value(), i) * std::exp(kRate * value_at(log_steps_->master.value(), i)));
    const kernels::QuantizedTensors integers =
        log_steps_ ? round_at_steps(master, matrix_, as_, steps_) : round_matrix(master, matrix_, as_);
    write_numbers(integers, matrix_, copy_);
    copy_into(steps_, scales_of(integers));
  }

  Var read(const Var& master) const override { return numbers(master).with_rounded_inputs(activation_bits_); }

  int64_t bytes() const override { return copy_.bytes() + steps_.bytes(); }

 private:
  WeightIntegers as_;
  int activation_bits_;
  kernels::PackedMatrix matrix_;  // without contents
  Tensor copy_, steps_;           // steps f32 [outputs, groups] of the copy, as they are stored
  Parameter *log_steps_ = nullptr, *signs_ = nullptr;

  int64_t groups() const { return clips() ? matrix_.groups() : 1; }
  Tensor scales_of(const kernels::QuantizedTensors& integers) const {
    const Tensor scales = integers.scales.reshape({matrix_.outputs, groups()});
    return as_type(scales, DType::f32);
  }

  // The copy, whose gradient passes straight through to the master.
  Var numbers(const Var& master) const {
    const Var log_steps = log_steps_ ? log_steps_->var() : Var();
    const bool apart = (clips() || log_steps_) && recording() && (master.needs_grad() || log_steps.needs_grad());
    if (!apart) return Var(copy_, master.ref());
    return record("rounded_weight", {master, log_steps}, copy_,
                  [this, w = master.value(), steps = steps_, master = master.ref(), learned = log_steps.ref()](
                      const Tensor& dy, Grads& g) {
                    const auto dw = g.into(master);
                    pass_inside(w, steps, dy, dw, g.wants(learned) ? g.into_zeroed(learned) : Tensor());
                  });
  }

  // The largest magnitude of an output is the largest integer of 8 bits where it is searched: nothing lies beyond.
  bool clips() const { return as_.format == kernels::PackedFormat::int4; }

  // dw (+)= dy where w / step rounds to an integer that there is; dlog_steps += dL/d(ln |step| / rate), by
  // 1 / sqrt(n most) [Esser et al. 2020, 2.2].
  void pass_inside(const Tensor& w, const Tensor& steps, const Tensor& dy, const Grads::Into& dw,
                   const Tensor& dlog_steps) const {
    if (w.is_meta()) return;
    const kernels::PackedMatrix& m = matrix_;
    const int64_t groups = this->groups(), width = clips() ? m.group : m.inputs;
    const double scale = kRate / std::sqrt(double(width * as_.most));
    const DType type = dw ? dw.to.dtype() : dlog_steps.dtype();
    const Tensor wide = as_type(dy, type);
    dispatch_float(type, [&]<class T>() {
      const T* from = wide.data<T>();
      dispatch_float(w.dtype(), [&]<class W>() {
        parallel_for(m.outputs, 1, [&](int64_t begin, int64_t end, int) {
          for (int64_t at = begin * groups; at < end * groups; ++at) {
            const int64_t n = at / groups, first = at % groups * width;
            const float step = steps.data<float>()[at];
            double sum = 0;
            for (int64_t k = first; k < std::min(first + width, m.inputs); ++k) {
              const int64_t i = m.by_rows ? n * m.inputs + k : k * m.outputs + n;
              const float v = step == 0 ? 0 : float(w.data<W>()[i]) / step;
              const bool inside = v >= float(as_.least) - 0.5f && v <= float(as_.most) + 0.5f;
              if (dw)
                dw.to.data<T>()[i] = T((dw.accumulate ? float(dw.to.data<T>()[i]) : 0) + (inside ? float(from[i]) : 0));
              if (dlog_steps.defined())
                sum += double(from[i]) * double(inside ? std::round(v) - v : v < 0 ? as_.least : as_.most);
            }
            if (dlog_steps.defined()) set_value(dlog_steps, at, value_at(dlog_steps, at) + sum * double(step) * scale);
          }
        });
      });
    });
  }
};

RoundedWeights::RoundedWeights(Model& model, const RoundedTraining& config, Parameters& parameters) : model_(model) {
  if (!config.on()) return;
  learns_ = config.learns_steps();
  const WeightIntegers as = weight_integers(config.weights, config.group_size);
  std::map<std::string, Packable> able = packable_matrices(model.config());
  std::vector<std::string> names;
  for (const Parameter& p : model.parameters().all()) names.push_back(p.name);
  for (const std::string& pattern : config.keep) {
    bool any = false;
    for (const std::string& name : names)
      if (::fnmatch(pattern.c_str(), name.c_str(), 0) == 0) any = true, able.erase(name);
    check_usage(any, "train", "rounding.keep names '", pattern, "', and no parameter is called so",
                did_you_mean(pattern, names), " (lithe plan RECIPE)");
  }
  check_usage(!able.empty(), "train", "rounding.keep leaves no matrix to round; keep fewer, or set weights: none");
  const DType wide = wide_of(model.compute_dtype());
  BuildContext context{.parameters = &parameters, .device = model.device(), .dtype = wide, .compute = wide};
  const MemoryScope memory(MemoryClass::weights);
  for (Parameter& p : model.parameters().all()) {
    const auto found = able.find(p.name);
    if (found == able.end()) continue;
    // What look-ups alone read meets no product.
    views_.push_back(std::make_shared<Rounded>(
        p, found->second.by_rows, as, found->second.product ? config.activation_bits : 0, model.compute_dtype()));
    if (learns_) views_.back()->learn(Scope(context, "rounding." + p.name));
    p.read_through(views_.back());
  }
}

void RoundedWeights::begin() {
  if (!learns_) return;
  for (const auto& view : views_) view->begin(model_.parameters().find(view->name())->master.value());
}

void RoundedWeights::save(const Path& file) const {
  const MemoryScope scratch(MemoryClass::workspace);
  std::map<std::string, PendingTensor> numbers;
  for (const Parameter& p : model_.parameters().all())
    numbers[p.name] = {p.master.shape(), p.numbers_type(), [&p] { return p.numbers(); }};
  std::map<std::string, Tensor> steps;
  for (const auto& view : views_) {
    steps[view->name()] = view->steps();
    const Parameter& p = *model_.parameters().find(view->name());
    numbers[p.name].read = [&p, &view = *view] { return view.rounded(p.numbers()); };
  }
  stream_safetensors(file, numbers, {{"format", "lithe"}});
  write_safetensors(file.parent_path() / kStepsFile, steps, {{"format", "lithe"}});
}

std::map<std::string, Tensor> RoundedWeights::learned_steps(const Path& weights) {
  const Path path = weights.parent_path() / kStepsFile;
  check_usage(std::filesystem::exists(path), "quantize", "the model learned its steps (train.rounding.steps), and '",
              path.string(), "' is missing; take weights that have it beside them, or another --weights");
  const SafetensorsFile file(path);
  std::map<std::string, Tensor> out;
  for (const auto& [name, entry] : file.entries()) file.read(name, out[name] = empty(entry.shape, entry.dtype));
  return out;
}

}  // namespace lithe
