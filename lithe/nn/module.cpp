#include "lithe/nn/module.h"

#include <fnmatch.h>

#include <cmath>

#include "lithe/base/did_you_mean.h"
#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/gemm/packed_matrix.h"
#include "lithe/kernels/optimizer/optimizer.h"
#include "lithe/nn/in_turns.h"
#include "lithe/nn/sharing.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"

namespace lithe {

namespace {

// The master in bf16.
class Rounded final : public View {
 public:
  explicit Rounded(const Tensor& master) : copy_(empty(master.shape(), DType::bf16, master.device())) {
    refresh(master);
  }
  void refresh(const Tensor& master) override { kernels::add({.a = master, .out = copy_}); }
  Var read(const Var& master) const override { return Var(copy_, master.ref()); }
  Tensor rounded() const override { return copy_; }
  int64_t bytes() const override { return copy_.bytes(); }

 private:
  Tensor copy_;
};

}  // namespace

void Parameter::read_through(std::shared_ptr<View> through) {
  check(!rest.defined() && !master.packed(), "model", "'", name,
        "' is split or packed, and is read as it is; give it a view before that");
  view = std::move(through);
  if (view) view->refresh(master.value());
}

int64_t Parameter::bytes() const {
  if (const kernels::PackedMatrix* packed = master.packed()) return packed->bytes();
  return master.value().bytes() + (view ? view->bytes() : 0) + (rest.defined() ? rest.bytes() : 0);
}

void Parameter::split() {
  const Tensor high = storage().rounded;
  if (!high) return;
  const MemoryScope memory(MemoryClass::weights);
  const Tensor wide = master.value();
  rest = empty({wide.numel(), 2}, DType::u8, wide.device());
  kernels::split(wide, high, rest);
  master = Var(high, master.ref());
  view = nullptr;
}

DType Parameter::numbers_type() const {
  const kernels::PackedMatrix* const packed = master.packed();
  return rest.defined() || (packed && kernels::integers(packed->format)) ? DType::f32 : master.dtype();
}

Tensor Parameter::numbers() const {
  if (const kernels::PackedMatrix* packed = master.packed()) return kernels::unpacked(*packed);
  if (!rest.defined()) return master.value();
  const Tensor wide = empty(master.shape(), DType::f32, master.device());
  kernels::join(master.value(), rest, wide);
  return wide;
}

void Parameter::assign(const Tensor& numbers) {
  if (rest.defined())
    kernels::split(numbers, master.value(), rest);
  else
    copy_into(master.value(), numbers);
}

void Parameter::clear_row(int64_t row) {
  fill_zero(master.value().slice(row, row + 1));
  if (view) view->refresh(master.value());
}

Parameter::Storage Parameter::storage() const { return {master.value(), rest, view ? view->rounded() : Tensor()}; }

Parameter* Parameters::add(Parameter parameter) {
  const auto [at, added] = by_name_.try_emplace(parameter.name, nullptr);
  check(added, "model", "two parameters are named '", parameter.name, "'");
  parameters_.push_back(std::move(parameter));
  return at->second = &parameters_.back();
}

Parameter* Parameters::find(const std::string& name) {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

void Parameters::freeze(const std::string& pattern) {
  bool found = false;
  for (Parameter& p : parameters_) {
    if (::fnmatch(pattern.c_str(), p.name.c_str(), 0) != 0) continue;
    found = true;
    p.master = Var(p.master.value());
    p.means = nullptr;
  }
  if (found) return;
  std::vector<std::string> names;
  for (const Parameter& p : parameters_) names.push_back(p.name);
  fail_usage("model", "no parameter is named '", pattern, "', which is to be frozen; the first of ", names.size(),
             " is ", names.empty() ? "none" : names.front(), did_you_mean(pattern, names), " (lithe plan RECIPE)");
}

int64_t Parameters::count() const {
  int64_t n = 0;
  for (const Parameter& p : parameters_) n += p.master.shape().numel();
  return n;
}

int64_t Parameters::bytes() const {
  int64_t n = 0;
  for (const Parameter& p : parameters_) n += p.bytes();
  return n;
}

void Parameters::refresh_views() {
  for (Parameter& p : parameters_)
    if (p.view && !p.master.packed()) p.view->refresh(p.master.value());
}

void Parameters::stepped() {
  for (Parameter& p : parameters_) {
    if (p.means) p.means->step(p.master.value());
    if (p.view && !p.master.packed() && !p.view->rounded()) p.view->refresh(p.master.value());
  }
}

void Parameters::drop_gathered() {
  for (Parameter& p : parameters_)
    if (p.means) p.means->drop();
}

MovingMeans::MovingMeans(const Shape& shape, double decay, Device device) : decay_(decay) {
  const MemoryScope memory(MemoryClass::gradients);
  sums_ = zeros(shape, DType::f64, device);
  counts_ = zeros({shape[0]}, DType::f64, device);
}

void MovingMeans::gather(int64_t row, const double* vector) {
  double* sum = sums_.data<double>() + row * sums_.cols();
  for (int64_t c = 0; c < sums_.cols(); ++c) sum[c] += vector[c];
  counts_.data<double>()[row] += 1;
}

void MovingMeans::step(const Tensor& rows) {
  if (sums_.is_meta()) return;
  const int64_t cols = sums_.cols();
  for (int64_t row = 0; row < sums_.rows(); ++row) {
    const double count = counts_.data<double>()[row];
    double square = 0;
    std::vector<double> moved;
    for (int64_t c = 0; count > 0 && c < cols; ++c) {
      moved.push_back(decay_ * value_at(rows, row * cols + c) +
                      (1 - decay_) * sums_.data<double>()[row * cols + c] / count);
      square += moved.back() * moved.back();
    }
    for (int64_t c = 0; square > 0 && c < cols; ++c)
      set_value(rows, row * cols + c, moved[size_t(c)] / std::sqrt(square));
  }
  drop();
}

MovingMeans::Gathered MovingMeans::take() {
  const MemoryScope memory(MemoryClass::gradients);
  Gathered out{zeros(sums_.shape(), DType::f64, sums_.device()), zeros(counts_.shape(), DType::f64, counts_.device())};
  std::swap(out.sums, sums_);
  std::swap(out.counts, counts_);
  return out;
}

void MovingMeans::put(Gathered gathered) {
  sums_ = std::move(gathered.sums);
  counts_ = std::move(gathered.counts);
}

void MovingMeans::drop() {
  if (sums_.is_meta()) return;
  fill_zero(sums_);
  fill_zero(counts_);
}

namespace {

thread_local const std::string* sharing_now = nullptr;

}  // namespace

SharedParameters::SharedParameters(bool on, std::string who) : around_(sharing_now), who_(std::move(who)), on_(on) {
  if (on_) sharing_now = &who_;
}
SharedParameters::SharedParameters() : around_(sharing_now), on_(true) { sharing_now = nullptr; }
SharedParameters::~SharedParameters() {
  if (on_) sharing_now = around_;
}
const std::string* SharedParameters::sharing() { return sharing_now; }

Parameter* Scope::parameter(const std::string& name, const Axes& axes, InitRole role,
                            const ParameterOptions& options) const {
  const Shape shape = shape_of(axes);
  if (const std::string* who = SharedParameters::sharing()) {
    Parameter* const there = context_->parameters->find(full(name));
    check_usage(there && there->master.shape() == shape, "model", *who, " shares '", full(name), "', which ",
                there ? cat("is ", there->master.shape(), ", and needs it as ", shape) : cat("there is not"),
                "; layers of one group must be alike (model.share)");
    return there;
  }
  const MemoryScope memory(MemoryClass::weights);
  const BuildContext& c = *context_;
  const bool matrix = shape.rank() == 2;
  // Vectors (norms, biases) stay wide when the matrices are stored in bf16: kernels expect that.
  const DType dtype = !matrix && c.dtype == DType::bf16 ? DType::f32 : c.dtype;
  const std::string path = full(name);
  ParametersInTurns::before(*c.parameters, layer_);
  const auto add = [&](Var master) {
    Parameter* const p = context_->parameters->add({.name = path,
                                                    .master = std::move(master),
                                                    .axes = axes,
                                                    .role = role,
                                                    .decay = matrix || role == InitRole::embedding,
                                                    .joins = options.joins || role == InitRole::residual_output});
    ParametersInTurns::added(*c.parameters, p);
    return p;
  };
  if (c.integers.count(path)) return add(Tensor::outline(shape, c.compute));
  const auto made = [&] {
    const Tensor value = empty(shape, dtype, c.device);
    if (c.initialised) initialise(value, options.init ? *options.init : c.init, role, path, c.seed, layer_, c.layers);
    return value;
  };
  if (const auto found = c.packed.find(path); found != c.packed.end() && c.compute != DType::f64) {
    auto m = std::make_shared<kernels::PackedMatrix>();
    m->format = c.compute == DType::f32 ? kernels::PackedFormat::f32 : kernels::PackedFormat::bf16;
    m->name = path;
    m->by_rows = found->second;
    m->outputs = shape[m->by_rows ? 0 : 1];
    m->inputs = shape[m->by_rows ? 1 : 0];
    kernels::allocate(*m, c.device);
    if (c.initialised) kernels::pack_rows(*m, 0, made());
    return add(Var(std::move(m), c.compute));
  }
  const Tensor value = made();
  Parameter* const p = add(c.trainable && options.follows == 0 ? Var::leaf(value) : Var(value));
  if (c.trainable && options.follows > 0) p->means = std::make_shared<MovingMeans>(shape, options.follows, c.device);
  const bool rounds = matrix && !options.wide && c.compute == DType::bf16 && dtype == DType::f32;
  if (rounds) p->view = std::make_shared<Rounded>(value);
  return p;
}

void Scope::couples(std::initializer_list<Dimension> dimensions) const {
  for (const Dimension of : dimensions) context_->parameters->couple({path_, of});
}

Linear::Linear(const Scope& scope, const Axis& in, const Axis& out, bool with_bias, InitRole role)
    : weight(scope.parameter("weight", {in, out}, role)),
      bias(with_bias ? scope.parameter("bias", {out}, InitRole::zeros, {.joins = role == InitRole::residual_output})
                     : nullptr) {}

Var Linear::operator()(const Var& x) const { return linear(x, weight->var(), var_or_none(bias)); }

std::vector<Var> apply_each(std::initializer_list<const Linear*> maps, const Var& x) {
  std::vector<LinearMap> each;
  for (const Linear* map : maps) each.push_back({map->weight->var(), var_or_none(map->bias)});
  return linear_each(x, each);
}

Var var_or_none(const Parameter* parameter) { return parameter ? parameter->var() : Var(); }

StepContext& step_context() {
  static thread_local StepContext context;
  return context;
}

Var Dropout::operator()(const Var& x, int64_t part) const {
  const StepContext& c = step_context();
  return dropout(x, p_, RandomKey{c.seed, c.step, layer_, purpose_ + uint32_t(part) * 0x9e3779b9u});
}

}  // namespace lithe
