#include "lithe/train/adapters.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>

#include "lithe/base/did_you_mean.h"
#include "lithe/base/json.h"
#include "lithe/model/adapter_layout.h"
#include "lithe/model/packable.h"
#include "lithe/model/safetensors.h"
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

class AdaptedView final : public View {
 public:
  AdaptedView(const Parameter* a, const Parameter* b, const Parameter* magnitude, double scale, DType compute)
      : a_(a), b_(b), magnitude_(magnitude), scale_(scale), compute_(compute) {}
  void refresh(const Tensor&) override {}
  Var read(const Var& master) const override { return cast(wide(master.value()), compute_); }
  int64_t bytes() const override { return 0; }

  /// The matrix that it stands for, in the type of the adapters.
  Var wide(const Tensor& master) const {
    const DType type = a_->master.dtype();
    const Var w =
        add(master.dtype() == type ? Var(master) : cast(Var(master), type), linear(a_->var(), b_->var()), 1, scale_);
    if (!magnitude_) return w;
    const Tensor norms = column_norms(w.value()), inverse = empty_like(norms);
    for (int64_t c = 0; c < norms.numel() && !norms.is_meta(); ++c) {
      const double norm = value_at(norms, c);
      set_value(inverse, c, norm > 0 ? 1 / norm : 0);
    }
    return row_affine(w, mul(magnitude_->var(), Var(inverse)), {});
  }

 private:
  const Parameter *a_, *b_, *magnitude_;
  double scale_;
  DType compute_;
};

}  // namespace

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
    if (!named_by(config.also, p.name)) p.master = Var(p.master.value());
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
    p.master = Var(p.master.value());
    p.read_through(std::make_shared<AdaptedView>(entry.a, entry.b, entry.magnitude, scale, model.compute_dtype()));
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
  std::map<std::string, Tensor> tensors;
  for (const Parameter& p : model_.parameters().all()) tensors[p.name] = p.numbers();
  for (const Entry& entry : entries_)
    tensors[entry.of->name] = static_cast<const AdaptedView&>(*entry.of->view).wide(entry.of->master.value()).value();
  write_safetensors(file, tensors, {{"format", "lithe"}});
}

void Adapters::save(const Path& directory, const std::string& base) const {
  std::filesystem::create_directories(directory);
  std::map<std::string, Tensor> tensors;
  Json modules = Json::array();
  for (const Entry& entry : entries_) {
    const std::string module = module_of_parameter(entry.of->name);
    modules.push_back(module);
    const auto matrix = [](const Parameter& of) { return turned_matrix(of.master.value(), 1, DType::f32); };
    tensors[adapter_tensor(module, "lora_A.weight")] = matrix(*entry.a);
    tensors[adapter_tensor(module, "lora_B.weight")] = matrix(*entry.b);
    if (entry.magnitude)
      tensors[adapter_tensor(module, "lora_magnitude_vector")] = clone(entry.magnitude->master.value());
  }
  for (const Parameter& p : model_.parameters().all())
    if (named_by(config_.also, p.name)) tensors[cat(kAdapted, p.name)] = p.numbers();
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  if (!base.empty()) metadata[kAdapterBase] = base;  // PEFT refuses keys in its configuration that it does not know
  write_safetensors(directory / "adapter_model.safetensors", tensors, metadata);
  const Json config = {{"peft_type", "LORA"},
                       {"r", config_.rank},
                       {"lora_alpha", config_.alpha},
                       {"use_rslora", config_.type == "rslora"},
                       {"use_dora", config_.type == "dora"},
                       {"target_modules", modules},
                       {"bias", "none"},
                       {"fan_in_fan_out", false},
                       {"inference_mode", true}};
  write_file(directory / "adapter_config.json", dump(config, 2) + "\n");
}

}  // namespace lithe
