#include "lithe/infer/adapter.h"

#include "lithe/base/did_you_mean.h"
#include "lithe/base/json.h"
#include "lithe/infer/weights_file.h"
#include "lithe/kernels/optimizer/optimizer.h"
#include "lithe/model/adapter_layout.h"
#include "lithe/model/packable.h"
#include "lithe/model/safetensors.h"

namespace lithe {
namespace {

constexpr const char *kA = "lora_A.weight", *kB = "lora_B.weight";
constexpr const char* kRemedy = "; give the run that trained it, whose model.safetensors has all of it merged";

double scale_of(const Path& file) {
  const Json config = parse_json(read_file(file, 1 << 20), file.string());
  const auto flag = [&](const char* key) {
    const auto at = config.find(key);
    return at != config.end() && *at == Json(true);
  };
  check_usage(config.is_object() && config.value("peft_type", Json()) == "LORA", "adapter", "'", file.string(),
              "' must have peft_type LORA");
  check_usage(!flag("use_dora"), "adapter", "'", file.string(),
              "' is of type dora, whose lengths of columns are no low-rank update", kRemedy);
  for (const char* key : {"rank_pattern", "alpha_pattern", "modules_to_save", "layer_replication"}) {
    const auto at = config.find(key);
    check_usage(at == config.end() || at->empty(), "adapter", "'", file.string(), "' has ", key,
                ", which is not supported; train one without it");
  }
  const Json bias = config.value("bias", Json("none")), r = config.value("r", Json()),
             alpha = config.value("lora_alpha", Json());
  check_usage(bias == "none", "adapter", "'", file.string(), "' has biases, which are no low-rank update", kRemedy);
  check_usage(r.is_number_integer() && r.get<int64_t>() >= 1 && alpha.is_number(), "adapter", "'", file.string(),
              "' must have a whole number r >= 1 and a number lora_alpha");
  return adapter_scale(alpha.get<double>(), r.get<double>(), flag("use_rslora"));
}

Tensor matrix_of(const SafetensorsFile& file, const std::string& name, double scale, DType dtype) {
  const Tensor given = empty(file.entries().at(name).shape, DType::f32);
  file.read(name, given);
  check(kernels::all_finite(given), "adapter", "'", name, "' has a number that is not finite");
  return turned_matrix(given, scale, dtype);
}

// Of the weights, or of those that `lithe quantize` rounded; empty: nobody knows these.
std::string base_of(const Model& model, const Path& run, const std::string& weights) {
  if (model.config().quantization_config.is_null()) return cat(weights_fingerprint(run, weights));
  const Path file = run / "receipt.json";
  if (!std::filesystem::exists(file)) return "";
  const Json receipt = parse_json(read_file(file), file.string());
  if (!receipt.is_object() || receipt.value("operation", Json()) != "quantize" || !receipt.contains("before"))
    return "";
  const Json base = receipt["before"].value("weights", Json());
  return base.is_string() ? base.get<std::string>() : "";
}

}  // namespace

Adapter::Adapter(const Model& model, const Path& directory, const Path& run, const std::string& of_run) {
  const Path config = directory / "adapter_config.json", weights = directory / "adapter_model.safetensors";
  for (const Path& file : {config, weights})
    check_usage(std::filesystem::exists(file), "adapter", "'", directory.string(), "' has no ",
                file.filename().string(), "; give adapter/ of a run with train.adapters");
  const double scale = scale_of(config);
  const SafetensorsFile file(weights);
  if (const auto base = file.metadata().find(kAdapterBase); base != file.metadata().end() && !run.empty()) {
    const std::string given = base_of(model, run, of_run);
    check_usage(given.empty() || given == base->second, "adapter", "'", directory.string(),
                "' was trained for weights with the checksum ", base->second, ", and those of '", run.string(),
                "' have ", given, "; give the run that it was trained from (from_pretrained)");
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
  for (const auto& [name, entry] : file.entries()) {
    if (const std::string of = adapted_module(name, kB); !of.empty()) {
      check_usage(file.entries().contains(adapter_tensor(of, kA)), "adapter", "'", weights.string(), "' has '", name,
                  "' without its lora_A");
      continue;
    }
    const std::string module = adapted_module(name, kA);
    check_usage(!module.empty(), "adapter", "'", weights.string(), "' has '", name, "', which is no low-rank update",
                kRemedy);
    const auto w = adaptable.find(module);
    check_usage(w != adaptable.end(), "adapter", "'", weights.string(), "' is of '", module,
                "', and the model has no linear map of that name", did_you_mean(module, modules));
    const std::string other = adapter_tensor(module, kB);
    const auto b = file.entries().find(other);
    check_usage(b != file.entries().end(), "adapter", "'", weights.string(), "' has '", name, "' without '", other,
                "'");
    const Shape of = w->second.shape(), a_shape = entry.shape, b_shape = b->second.shape;
    check_usage(a_shape.rank() == 2 && b_shape.rank() == 2 && a_shape[0] >= 1 && a_shape[1] == of[0] &&
                    b_shape[0] == of[1] && b_shape[1] == a_shape[0],
                "adapter", "'", module, "' reads ", of[0], " channels and writes ", of[1], "; '", weights.string(),
                "' has matrices ", a_shape, " and ", b_shape, " for it, and needs [r,", of[0], "] and [", of[1],
                ",r]; it is of another model");
    updates_.add(w->second, matrix_of(file, name, 1, model.compute_dtype()),
                 matrix_of(file, other, scale, model.compute_dtype()));
    rank_ = std::max(rank_, a_shape[0]);
  }
  check_usage(rank_ > 0, "adapter", "'", weights.string(), "' is empty");
}

}  // namespace lithe
