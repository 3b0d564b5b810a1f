#include "lithe/interchange/peft.h"

#include <algorithm>

#include "lithe/base/did_you_mean.h"
#include "lithe/base/new_directory.h"
#include "lithe/infer/adapter.h"
#include "lithe/interchange/export_parts.h"
#include "lithe/model/adapter_files.h"
#include "lithe/model/adapter_layout.h"
#include "lithe/model/packable.h"

namespace lithe {
namespace {

using Updates = std::map<std::string, LowRankUpdate>;

// The linear maps of a run, by the modules of its architecture.
struct Modules {
  Described described;
  std::map<std::string, std::vector<const Weight*>> theirs;
  std::map<std::string, Shape> shapes;  // of ours, by parameter
};

Modules modules_of(const Path& run) {
  const Path file = run / "config.json";
  check_usage(std::filesystem::exists(file), "adapter", "'", run.string(),
              "' has no config.json; give a training run or an imported model");
  ModelConfig config = load_config(file);
  config.quantization_config = {};  // integers are of the same maps
  Modules out{.described = describe_model(config), .theirs = {}, .shapes = {}};
  const std::map<std::string, Packable> able = packable_matrices(config);
  for (const auto& [name, shape] : parameter_shapes(config))
    if (const auto at = able.find(name); at != able.end() && at->second.adapts()) out.shapes[name] = shape;
  for (const Weight& w : out.described.mapping.weights)
    if (out.shapes.contains(w.ours) && !w.places && !w.row) out.theirs[module_of_parameter(w.theirs)].push_back(&w);
  return out;
}

AdapterReport report_of(const Updates& updates, const Modules& modules) {
  AdapterReport out{.model_type = modules.described.config["model_type"], .modules = int64_t(updates.size())};
  for (const auto& [name, update] : updates) {
    out.parameters += update.a.numel() + update.b.numel();
    out.rank = std::max(out.rank, update.a.dim(0));
  }
  return out;
}

// Number i of the outputs of ours is this one of theirs.
int64_t output_of(const Weight& w, int64_t i) { return w.columns.empty() ? i : w.columns[size_t(i)]; }

// One update of the joined projection: a stacked, b with blocks, whose ranks add.
LowRankUpdate joined(const std::vector<const Weight*>& weights, const Modules& modules, const Updates& ours) {
  int64_t rank = 0, inputs = 0, outputs = 0;
  for (const Weight* w : weights) {
    const Shape& shape = modules.shapes.at(w->ours);
    for (int64_t i = 0; i < shape[1]; ++i) outputs = std::max(outputs, output_of(*w, i) + 1);
    inputs = shape[0];
    if (const auto at = ours.find(module_of_parameter(w->ours)); at != ours.end()) rank += at->second.a.dim(0);
  }
  LowRankUpdate out{empty({rank, inputs}, DType::f32), zeros({outputs, rank}, DType::f32), 0};
  int64_t begin = 0;
  for (const Weight* w : weights) {
    const auto at = ours.find(module_of_parameter(w->ours));
    if (at == ours.end()) continue;
    const LowRankUpdate& update = at->second;
    const int64_t r = update.a.dim(0);
    if (out.scale == 0) out.scale = update.scale;
    for (int64_t k = 0; k < r; ++k)
      for (int64_t c = 0; c < inputs; ++c)
        set_value(out.a, (begin + k) * inputs + c, value_at(update.a, k * inputs + c));
    for (int64_t i = 0; i < update.b.dim(0); ++i)
      for (int64_t k = 0; k < r; ++k)
        set_value(out.b, output_of(*w, i) * rank + begin + k,
                  value_at(update.b, i * r + k) * (update.scale / out.scale));
    begin += r;
  }
  return out;
}

// The rows of b that write what ours writes.
Tensor rows_of(const Tensor& b, const Weight& w, int64_t outputs) {
  if (w.columns.empty()) return b;
  const int64_t rank = b.dim(1);
  const Tensor out = empty({outputs, rank}, DType::f32);
  for (int64_t i = 0; i < outputs; ++i)
    for (int64_t k = 0; k < rank; ++k) set_value(out, i * rank + k, value_at(b, output_of(w, i) * rank + k));
  return out;
}

}  // namespace

AdapterReport export_adapter(const Path& run, const Path& out, bool overwrite) {
  NewDirectory directory(out, "export", overwrite);
  const Modules modules = modules_of(run);
  const Updates ours = read_adapter(run / "adapter").updates;
  Updates theirs;
  std::set<std::string> written;
  bool conv1d = false;
  for (const auto& [module, weights] : modules.theirs) {
    bool any = false;
    for (const Weight* w : weights)
      if (ours.contains(module_of_parameter(w->ours))) any = written.insert(module_of_parameter(w->ours)).second || any;
    if (!any) continue;
    theirs[module] = joined(weights, modules, ours);
    conv1d = conv1d || !weights[0]->transposed;
  }
  for (const auto& [module, update] : ours)
    check_usage(written.contains(module), "export", "'", (run / "adapter").string(), "' is of '", module, "', and ",
                std::string(modules.described.config["model_type"]), " has no linear map for it");
  const bool decoder = modules.described.mapping.model.architecture == Architecture::decoder;
  write_adapter(
      directory.path(),
      {.config = {{"fan_in_fan_out", conv1d}, {"task_type", decoder ? Json("CAUSAL_LM") : Json()}}, .updates = theirs});
  directory.commit();
  return report_of(theirs, modules);
}

AdapterReport import_adapter(const Path& from, const Path& base, const Path& out, bool overwrite) {
  NewDirectory directory(out, "import", overwrite);
  const Modules modules = modules_of(base);
  std::vector<std::string> known;
  for (const auto& [module, weights] : modules.theirs) known.push_back(module);
  Updates ours;
  for (const auto& [module, update] : read_adapter(from).updates) {
    const auto found = modules.theirs.find(module);
    check_usage(found != modules.theirs.end(), "import", "'", from.string(), "' is of '", module, "', and ",
                std::string(modules.described.config["model_type"]), " in '", base.string(),
                "' has no linear map of that name", did_you_mean(module, known));
    int64_t outputs = 0;
    for (const Weight* w : found->second)
      for (int64_t i = 0; i < modules.shapes.at(w->ours)[1]; ++i) outputs = std::max(outputs, output_of(*w, i) + 1);
    for (const Weight* w : found->second) {
      const Shape& shape = modules.shapes.at(w->ours);
      check_usage(update.a.dim(1) == shape[0] && update.b.dim(0) == outputs, "import", "'", module, "' reads ",
                  shape[0], " channels and writes ", outputs, "; '", from.string(), "' has matrices ", update.a.shape(),
                  " and ", update.b.shape(), " for it; it is of another model");
      ours[module_of_parameter(w->ours)] = {update.a, rows_of(update.b, *w, shape[1]), update.scale};
    }
  }
  write_adapter(directory.path(), {.updates = ours, .base = adapter_base_checksum(base, "")});
  directory.commit();
  return report_of(ours, modules);
}

}  // namespace lithe
