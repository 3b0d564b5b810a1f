#include "lithe/model/adapter_files.h"

#include "lithe/kernels/optimizer/optimizer.h"
#include "lithe/model/adapter_layout.h"
#include "lithe/model/safetensors.h"

namespace lithe {
namespace {

constexpr const char *kA = "lora_A.weight", *kB = "lora_B.weight";
constexpr const char* kRemedy = "; give the run that trained it, whose model.safetensors has all of it merged";

bool flag(const Json& config, const char* key) {
  const auto at = config.find(key);
  return at != config.end() && *at == Json(true);
}

void check_config(const Json& config, const Path& file) {
  check_usage(config.is_object() && config.value("peft_type", Json()) == "LORA", "adapter", "'", file.string(),
              "' must have peft_type LORA");
  check_usage(!flag(config, "use_dora"), "adapter", "'", file.string(),
              "' is of type dora, whose lengths of columns are no low-rank update", kRemedy);
  for (const char* key : {"modules_to_save", "layer_replication", "trainable_token_indices", "target_parameters"}) {
    const auto at = config.find(key);
    check_usage(at == config.end() || at->empty(), "adapter", "'", file.string(), "' has ", key,
                ", which is not supported; train one without it");
  }
  const Json bias = config.value("bias", Json("none")), r = config.value("r", Json()),
             alpha = config.value("lora_alpha", Json());
  check_usage(bias == "none" && !flag(config, "lora_bias"), "adapter", "'", file.string(),
              "' has biases, which are no low-rank update", kRemedy);
  check_usage(r.is_number_integer() && r.get<int64_t>() >= 1 && alpha.is_number(), "adapter", "'", file.string(),
              "' must have a whole number r >= 1 and a number lora_alpha");
}

// alpha_pattern holds names of modules, or their ends.
double alpha_of(const Json& config, const std::string& module, const Path& file) {
  const Json patterns = config.value("alpha_pattern", Json::object());
  if (patterns.is_object())
    for (const auto& [name, alpha] : patterns.items()) {
      check_usage(name.find_first_of("*+?^$[](){}|\\") == std::string::npos && alpha.is_number(), "adapter", "'",
                  file.string(), "': alpha_pattern '", name, "' must be a name of modules, or its end, with a number");
      if (module == name || module.ends_with("." + name)) return alpha.get<double>();
    }
  return config["lora_alpha"].get<double>();
}

}  // namespace

AdapterFiles read_adapter(const Path& directory) {
  const Path file = directory / "adapter_config.json", weights = directory / "adapter_model.safetensors";
  for (const Path& each : {file, weights})
    check_usage(std::filesystem::exists(each), "adapter", "'", directory.string(), "' has no ",
                each.filename().string(), "; give adapter/ of a run with train.adapters");
  AdapterFiles out{.config = parse_json(read_file(file, 1 << 20), file.string())};
  check_config(out.config, file);
  const SafetensorsFile tensors(weights);
  if (const auto base = tensors.metadata().find(kAdapterBase); base != tensors.metadata().end())
    out.base = base->second;
  const auto matrix = [&](const std::string& name) {
    const Tensor given = empty(tensors.entries().at(name).shape, DType::f32);
    tensors.read(name, given);
    check(kernels::all_finite(given), "adapter", "'", name, "' has a number that is not finite");
    return given;
  };
  for (const auto& [name, entry] : tensors.entries()) {
    if (const std::string of = adapted_module(name, kB); !of.empty()) {
      check_usage(tensors.entries().contains(adapter_tensor(of, kA)), "adapter", "'", weights.string(), "' has '", name,
                  "' without its lora_A");
      continue;
    }
    const std::string module = adapted_module(name, kA), other = adapter_tensor(module, kB);
    check_usage(!module.empty(), "adapter", "'", weights.string(), "' has '", name, "', which is no low-rank update",
                kRemedy);
    const auto b = tensors.entries().find(other);
    check_usage(b != tensors.entries().end(), "adapter", "'", weights.string(), "' has '", name, "' without '", other,
                "'");
    check_usage(entry.shape.rank() == 2 && b->second.shape.rank() == 2 && entry.shape[0] >= 1 &&
                    b->second.shape[1] == entry.shape[0],
                "adapter", "'", weights.string(), "' has matrices ", entry.shape, " and ", b->second.shape, " for '",
                module, "', and needs [r, inputs] and [outputs, r]; it is of another model");
    out.updates[module] = {
        matrix(name), matrix(other),
        adapter_scale(alpha_of(out.config, module, file), double(entry.shape[0]), flag(out.config, "use_rslora"))};
  }
  check_usage(!out.updates.empty(), "adapter", "'", weights.string(), "' is empty");
  return out;
}

void write_adapter(const Path& directory, AdapterFiles files) {
  Json& config = files.config;
  std::map<std::string, Tensor> tensors = std::move(files.others);
  Json modules = Json::array(), ranks = Json::object(), alphas = Json::object();
  const LowRankUpdate& first = files.updates.begin()->second;
  const int64_t rank = first.a.dim(0);
  const double alpha = first.scale * double(rank);
  for (const auto& [module, update] : files.updates) {
    modules.push_back(module);
    tensors[adapter_tensor(module, kA)] = update.a;
    tensors[adapter_tensor(module, kB)] = update.b;
    const int64_t own = update.a.dim(0);
    if (own != rank) ranks[module] = own;
    if (update.scale * double(own) != alpha) alphas[module] = update.scale * double(own);
  }
  config.update({{"peft_type", "LORA"}, {"target_modules", modules}, {"bias", "none"}, {"inference_mode", true}});
  if (!config.contains("r"))
    config.update({{"r", rank}, {"lora_alpha", alpha}, {"rank_pattern", ranks}, {"alpha_pattern", alphas}});
  std::map<std::string, std::string> metadata{{"format", "pt"}};
  if (!files.base.empty())
    metadata[kAdapterBase] = files.base;  // PEFT refuses keys that it does not know in its config
  write_safetensors(directory / "adapter_model.safetensors", tensors, metadata);
  write_file(directory / "adapter_config.json", dump(config, 2) + "\n");
}

}  // namespace lithe
