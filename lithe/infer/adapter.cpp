#include "lithe/infer/adapter.h"

#include "lithe/base/did_you_mean.h"
#include "lithe/base/json.h"
#include "lithe/infer/weights_file.h"
#include "lithe/model/adapter_files.h"
#include "lithe/model/adapter_layout.h"
#include "lithe/model/packable.h"
#include "lithe/model/quantized_weights.h"

namespace lithe {

std::string adapter_base_checksum(const Path& run, const std::string& weights) {
  if (integer_weights(weights_file(run, weights)).empty()) return cat(weights_fingerprint(run, weights));
  const Path file = run / "receipt.json";
  if (!std::filesystem::exists(file)) return "";
  const Json receipt = parse_json(read_file(file), file.string());
  if (!receipt.is_object() || receipt.value("operation", Json()) != "quantize" || !receipt.contains("before"))
    return "";
  const Json base = receipt["before"].value("weights", Json());
  return base.is_string() ? base.get<std::string>() : "";
}

Adapter::Adapter(const Model& model, const Path& directory, const Path& run, const std::string& of_run) {
  const AdapterFiles files = read_adapter(directory);
  if (const std::string& base = files.base; !base.empty() && !run.empty()) {
    const std::string given = adapter_base_checksum(run, of_run);
    check_usage(given.empty() || given == base, "adapter", "'", directory.string(),
                "' was trained for weights with the checksum ", base, ", and those of '", run.string(), "' have ",
                given, "; give the run that it was trained from (from_pretrained)");
  }
  const std::map<std::string, Packable> able = packable_matrices(model.config());
  std::map<std::string, Var> adaptable;
  std::vector<std::string> modules;
  for (const Parameter& p : model.parameters().all())
    if (const auto at = able.find(p.name); at != able.end() && at->second.adapts()) {
      modules.push_back(module_of_parameter(p.name));
      adaptable[modules.back()] = p.master;
    }
  const MemoryScope memory(MemoryClass::weights);
  for (const auto& [module, update] : files.updates) {
    const auto w = adaptable.find(module);
    check_usage(w != adaptable.end(), "adapter", "'", directory.string(), "' is of '", module,
                "', and the model has no linear map of that name", did_you_mean(module, modules),
                "; lithe import --base turns adapters of PEFT into lithe's names");
    const Shape of = w->second.shape();
    check_usage(update.a.dim(1) == of[0] && update.b.dim(0) == of[1], "adapter", "'", module, "' reads ", of[0],
                " channels and writes ", of[1], "; '", directory.string(), "' has matrices ", update.a.shape(), " and ",
                update.b.shape(), " for it, and needs [r,", of[0], "] and [", of[1], ",r]; it is of another model");
    updates_.add(w->second, turned_matrix(update.a, 1, model.compute_dtype()),
                 turned_matrix(update.b, update.scale, model.compute_dtype()));
    rank_ = std::max(rank_, update.a.dim(0));
  }
}

}  // namespace lithe
