#include "lithe/train/adapters.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>

#include "lithe/base/did_you_mean.h"
#include "lithe/base/json.h"
#include "lithe/model/adapter_files.h"
#include "lithe/model/adapter_layout.h"
#include "lithe/model/packable.h"
#include "lithe/model/safetensors.h"
#include "lithe/model/tensor_stream.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/linear.h"

namespace lithe {
namespace {

bool fits(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}
bool named_by(const std::vector<std::string>& patterns, const std::string& name) {
  return std::ranges::any_of(patterns, [&](const std::string& pattern) { return fits(pattern, name); });
}
bool has_wildcard(const std::string& pattern) { return pattern.find_first_of("*?[") != std::string::npos; }

// Each pattern names a parameter, and each target linear maps: one with a wildcard takes those among what it names.
void check_names(const AdapterConfig& config, const std::vector<std::string>& all,
                 const std::map<std::string, Packable>& able) {
  const auto adapts = [&](const std::string& name) {
    const auto found = able.find(name);
    return found != able.end() && found->second.adapts();
  };
  for (const std::vector<std::string>* patterns : {&config.targets, &config.also})
    for (const std::string& pattern : *patterns) {
      std::vector<std::string> named;
      for (const std::string& name : all)
        if (fits(pattern, name)) named.push_back(name);
      check_usage(!named.empty(), "train", "adapters names '", pattern, "', and no parameter is called so",
                  did_you_mean(pattern, all), " (lithe plan RECIPE)");
      if (patterns == &config.also) continue;
      check_usage(std::ranges::any_of(named, adapts), "train", "adapters.targets names ",
                  has_wildcard(pattern) ? cat("'", pattern,
                                              "', and of what it matches none is read by a linear map alone, "
                                              "as '",
                                              named.front(), "' is not")
                                        : cat("'", pattern, "', which no linear map reads alone"),
                  "; name weights of linear maps");
    }
  check_usage(!config.targets.empty(), "train",
              "adapters.targets is empty; name matrices, as in [\"*.mixer.heads.q.weight\"]");
}

// Of each column of w [R, C].
Tensor column_norms(const Tensor& w) {
  const Tensor out = empty({w.cols()}, w.dtype(), w.device());
  if (out.is_meta()) return out;
  dispatch_float(w.dtype(), [&]<class T>() {
    std::vector<double> sums(size_t(w.cols()), 0);
    for (int64_t r = 0; r < w.rows(); ++r)
      for (int64_t c = 0; c < w.cols(); ++c) {
        const auto v = double(w.data<T>()[r * w.cols() + c]);
        sums[size_t(c)] += v * v;
      }
    for (int64_t c = 0; c < w.cols(); ++c) out.data<T>()[c] = T(std::sqrt(sums[size_t(c)]));
  });
  return out;
}

// The columns of `w`, at these lengths.
Var with_lengths(const Var& w, const Var& magnitude) {
  const Tensor norms = column_norms(w.value()), inverse = empty_like(norms);
  for (int64_t c = 0; c < norms.numel() && !norms.is_meta(); ++c) {
    const double norm = value_at(norms, c);
    set_value(inverse, c, norm > 0 ? 1 / norm : 0);
  }
  return row_affine(w, mul(magnitude, Var(inverse)), {});
}

// What is read of an adapted weight. `before`: what was read of it until now, none: the master.
class AdaptedView final : public View {
 public:
  AdaptedView(const Parameter* a, const Parameter* b, const Parameter* magnitude, double scale, DType compute,
              std::shared_ptr<View> before)
      : a_(a), b_(b), magnitude_(magnitude), scale_(scale), compute_(compute), before_(std::move(before)) {}
  void refresh(const Tensor& master) override {
    if (before_) before_->refresh(master);
  }
  Var read(const Var& master) const override {
    if (magnitude_) return cast(whole(master.value()), compute_);
    return (before_ ? before_->read(master) : master)
        .with_low_rank(std::make_shared<const LowRank>(LowRank{a_->var(), b_->var(), scale_}));
  }
  int64_t bytes() const override { return before_ ? before_->bytes() : 0; }

  /// The matrix that it stands for, in the type of the adapters.
  Var whole(const Tensor& master) const {
    const DType type = a_->master.dtype();
    const Var w =
        add(master.dtype() == type ? Var(master) : cast(Var(master), type), linear(a_->var(), b_->var()), 1, scale_);
    return magnitude_ ? with_lengths(w, magnitude_->var()) : w;
  }

 private:
  const Parameter *a_, *b_, *magnitude_;
  double scale_;
  DType compute_;
  std::shared_ptr<View> before_;
};

}  // namespace

IntegerWeights integers_under_adapters(const Recipe& recipe) {
  const Path file = Path(recipe.from_pretrained) / "model.safetensors";
  if (!recipe.train.adapters.on() || recipe.from_pretrained.empty() || recipe.fresh_weights ||
      !std::filesystem::exists(file))
    return {};
  IntegerWeights out{file, integer_weights(file)};
  if (recipe.has_task()) std::erase_if(out.names, [](const std::string& name) { return name.starts_with("head."); });
  return out;
}

void check_adapted_head(const Recipe& recipe, const Model& model) {
  const AdapterConfig& adapters = recipe.train.adapters;
  if (!adapters.on() || !recipe.has_task()) return;
  for (const Parameter& p : model.parameters().all())
    check_usage(!p.name.starts_with("head.") || named_by(adapters.also, p.name), "train",
                "the task's head begins anew, "
                "and train.adapters freezes its '",
                p.name, "' at random numbers; add also: [\"head.*\"]");
}

Adapters::Adapters(Model& model, const AdapterConfig& config, Parameters& parameters, uint64_t seed)
    : model_(model), config_(config) {
  BuildContext context{.parameters = &parameters,
                       .device = model.device(),
                       .dtype = wide_of(model.compute_dtype()),
                       .compute = wide_of(model.compute_dtype()),
                       .init = model.config().init,
                       .seed = seed,
                       .layers = model.config().num_hidden_layers};
  const std::map<std::string, Packable> able = packable_matrices(model.config());
  std::vector<std::string> all;
  for (const Parameter& p : model.parameters().all()) all.push_back(p.name);
  check_names(config, all, able);
  for (Parameter& p : model.parameters().all()) {
    check_usage(
        !p.master.packed() || !named_by(config.also, p.name), "train", "adapters.also names '", p.name,
        "', which holds integer weights, and these cannot be trained; name others, or start from the run that was "
        "quantised");
    if (!named_by(config.also, p.name) && !p.master.packed()) p.master = Var(p.master.value());
    const auto found = able.find(p.name);
    if (!named_by(config.targets, p.name) || found == able.end() || !found->second.adapts()) continue;
    check_usage(!named_by(config.also, p.name), "train", "adapters.targets and adapters.also both name '", p.name,
                "', and what trains in full needs no adapter; leave it out of one of both");
    const int64_t rows = p.master.dim(0), smaller = std::min(rows, p.master.dim(1));
    check_usage(config.rank <= smaller, "train", "adapters.rank is ", config.rank, ", and '", p.name, "' is ",
                p.master.shape(), ", whose rank is at most ", smaller, "; give that or less");
    const Scope scope(context, "adapters." + p.name);
    const InitConfig init{.std = 1 / std::sqrt(3. * double(rows))};
    Entry entry{&p, nullptr, nullptr, nullptr};
    entry.a =
        scope.parameter("lora_a", {p.axes[0], Axis(config.rank)}, InitRole::embedding, {.init = &init, .wide = true});
    entry.b = scope.parameter("lora_b", {Axis(config.rank), p.axes[1]}, InitRole::zeros, {.wide = true});
    if (config.type == "dora") entry.magnitude = scope.parameter("magnitude", {p.axes[1]}, InitRole::ones);
    const double scale = adapter_scale(config.alpha, double(config.rank), config.type == "rslora");
    check_usage(!p.master.packed() || config.type != "dora", "train", "adapters.type dora needs the numbers of '",
                p.name,
                "', which holds integer weights; choose lora or rslora, or start from the run that was quantised");
    // Whole matrices are made of the master alone.
    p.view = std::make_shared<AdaptedView>(entry.a, entry.b, entry.magnitude, scale, model.compute_dtype(),
                                           entry.magnitude ? nullptr : p.view);
    entries_.push_back(entry);
  }
}

void Adapters::begin() {
  for (const Entry& entry : entries_)
    if (entry.magnitude) {
      const Tensor norms = column_norms(entry.of->master.value());
      copy_into(entry.magnitude->master.value(), norms.dtype() == entry.magnitude->master.dtype()
                                                     ? norms
                                                     : convert(norms, entry.magnitude->master.dtype()));
    }
}

void Adapters::save_merged(const Path& file) const {
  const NoGrad no_grad;
  const MemoryScope scratch(MemoryClass::workspace);
  std::map<std::string, const AdaptedView*> views;
  for (const Entry& entry : entries_) views[entry.of->name] = static_cast<const AdaptedView*>(entry.of->view.get());
  std::map<std::string, PendingTensor> tensors;
  for (const Parameter& p : model_.parameters().all()) {
    const auto view = views.find(p.name);
    const AdaptedView* const of = view == views.end() ? nullptr : view->second;
    // Integers become numbers of the type that the model computes in.
    const DType type = p.master.packed() ? model_.compute_dtype() : of ? wide_of(p.master.dtype()) : p.numbers_type();
    tensors[p.name] = {p.master.shape(), type, [&p, type, of] {
                         const Tensor numbers = of ? of->whole(p.numbers()).value() : p.numbers();
                         return as_type(numbers, type);
                       }};
  }
  stream_safetensors(file, tensors, {{"format", "lithe"}});
}

void Adapters::save(const Path& directory, const std::string& base) const {
  std::filesystem::create_directories(directory);
  const bool rslora = config_.type == "rslora", dora = config_.type == "dora";
  AdapterFiles out{.config = {{"r", config_.rank},
                              {"lora_alpha", config_.alpha},
                              {"use_rslora", rslora},
                              {"use_dora", dora},
                              {"fan_in_fan_out", false}},
                   .base = base};
  const double scale = adapter_scale(config_.alpha, double(config_.rank), rslora);
  for (const Entry& entry : entries_) {
    const std::string module = module_of_parameter(entry.of->name);
    const auto matrix = [](const Parameter& of) { return turned_matrix(of.master.value(), 1, DType::f32); };
    out.updates[module] = {matrix(*entry.a), matrix(*entry.b), scale};
    if (entry.magnitude)
      out.others[adapter_tensor(module, "lora_magnitude_vector")] = clone(entry.magnitude->master.value());
  }
  for (const Parameter& p : model_.parameters().all())
    if (named_by(config_.also, p.name)) out.others[cat(kAdapted, p.name)] = p.numbers();
  write_adapter(directory, std::move(out));
}

}  // namespace lithe
