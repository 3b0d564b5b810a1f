#include "lithe/interchange/export.h"

#include <algorithm>

#include "lithe/base/new_directory.h"
#include "lithe/interchange/export_parts.h"
#include "lithe/interchange/import_parts.h"
#include "lithe/interchange/same_model.h"
#include "lithe/model/pending_weights.h"
#include "lithe/model/quantized_weights.h"
#include "lithe/recipe/recipe.h"

namespace lithe {

namespace fs = std::filesystem;

RunToExport read_run(const ExportOptions& o) {
  const Path config = o.run / "config.json";
  check_usage(fs::exists(config), "export", "'", o.run.string(),
              "' has no config.json; give the --out directory of a training run");
  RunToExport out{.config = load_config(config), .parameters = {}, .tokenizer = load_tokenizers(o.run).tokenizer};
  check_holds_numbers(out.config, "export", cat("'", o.run.string(), "'"));
  const Path file = o.weights.empty()                                ? o.run / "model.safetensors"
                    : o.weights == "best" || o.weights == "averaged" ? o.run / o.weights / "model.safetensors"
                                                                     : Path(o.weights);
  check_usage(fs::exists(file), "export", "'", file.string(), "' does not exist");
  out.parameters = weights_in(file, Model(out.config, {.device = Device::meta}), "export", true);
  return out;
}

Described describe_model(const ModelConfig& model, const std::vector<std::string>& types) {
  std::vector<std::string> nearest;
  std::string nearest_type;
  for (const Family& family : families()) {
    std::optional<Json> written = family.write(model);
    if (!written) continue;
    const std::string type = (*written)["model_type"];
    if (!types.empty() && std::find(types.begin(), types.end(), type) == types.end()) continue;
    const HfConfig config(parse_json_node(written->dump(), type), type);
    Mapping mapping;
    std::vector<std::string> differences;
    try {
      mapping = family.read(config, nullptr);
      config.finish();
      differences = model_differences(model, mapping.model);
    } catch (const Error&) {  // the family cannot say this: another may, or none
      continue;
    }
    if (differences.empty()) return {*written, mapping};
    if (nearest_type.empty() || differences.size() < nearest.size()) {
      nearest = differences;
      nearest_type = type;
    }
  }
  const bool densify = std::any_of(nearest.begin(), nearest.end(), [](const std::string& d) {
    return d.find("output.type") != std::string::npos || d.find("heads.type") != std::string::npos ||
           d.find("share.") != std::string::npos;
  });
  check_usage(!nearest_type.empty(), "export", "no architecture there has architecture ", model.architecture,
              " with position ", model.position.type, ", norm ", model.norm.type, " and head ", model.head.type);
  fail_usage("export", "no architecture there has this model's parts; as the nearest, ", nearest_type, ", ", nearest[0],
             nearest.size() > 1 ? cat(" (and ", nearest.size() - 1, " more)") : "",
             densify ? "; `lithe convert --densify` gives attention a standard form" : "");
}

ExportReport export_model(const ExportOptions& o) {
  if (o.format == "gguf") return export_gguf(o);
  NewDirectory out(o.out, "export", o.overwrite);
  const RunToExport run = read_run(o);
  Described described = describe_model(run.config);
  auto tensors = write_parameters(run.parameters, described.mapping);
  if (!o.dtype.empty())
    for (auto& [name, tensor] : tensors) {
      const DType dtype = dtype_named(o.dtype);
      if (tensor.dtype != dtype)
        tensor = {tensor.shape, dtype, [read = tensor.read, dtype] { return convert(read(), dtype); }};
    }
  bool narrow = true;
  for (const auto& [name, tensor] : tensors) narrow = narrow && tensor.dtype == DType::bf16;
  described.config["torch_dtype"] = narrow ? "bfloat16" : "float32";
  const Specials& specials = run.tokenizer->specials();
  Json generation = {{"_from_model_config", false}};
  const std::pair<const char*, std::optional<int32_t>> roles[] = {
      {"bos_token_id", specials.bos}, {"eos_token_id", specials.eos}, {"pad_token_id", specials.pad}};
  for (const auto& [key, id] : roles) {
    if (id) generation[key] = *id;
    if (!described.config.contains(key)) described.config[key] = id ? Json(*id) : Json();
  }
  if (reads_source(run.config.architecture) && (specials.bos || specials.eos))
    described.config["decoder_start_token_id"] = specials.bos ? *specials.bos : *specials.eos;
  stream_safetensors(out / "model.safetensors", tensors, {{"format", "pt"}});
  write_file(out / "config.json", dump(described.config, 2) + "\n");
  const bool decoder = run.config.architecture == Architecture::decoder;
  Recipe recipe = recipe_of_run(o.run);
  recipe.model = run.config;
  const GenerateConfig& g = recipe.generate;
  if (recipe.data.image.given())
    write_pictures(out.path(), recipe.data.image);
  else
    export_tokenizer(out.path(), *run.tokenizer, run.config.architecture,
                     !reads_sounds(run.config) && (!decoder || g.add_bos_token),
                     described.config.value("type_vocab_size", 0) > 1);
  if (reads_sounds(run.config)) write_sounds(o.run, out.path(), recipe.data.audio);
  if (decoder) {
    generation["do_sample"] = g.do_sample;
    if (g.do_sample) {
      generation["temperature"] = g.temperature;
      generation["top_k"] = g.top_k;
      generation["top_p"] = g.top_p;
    }
    generation["repetition_penalty"] = g.repetition_penalty;
    generation["max_new_tokens"] = g.max_new_tokens;
    generation.erase("_from_model_config");
    write_file(out / "generation_config.json", dump(generation, 2) + "\n");
  }
  const bool rows = run.config.head.type == "lm" || run.config.head.type == "mlm";
  if (run.config.architecture == Architecture::encoder && rows)
    write_sentence_modules(out.path(), recipe, *run.tokenizer);
  copy_chat_templates(o.run, out.path());
  ExportReport report{.model_type = described.config["model_type"],
                      .tensors = int64_t(tensors.size()),
                      .parameters = 0,
                      .bytes = fs::file_size(out / "model.safetensors")};
  for (const auto& [name, tensor] : run.parameters) report.parameters += tensor.shape.numel();
  out.commit();
  return report;
}

}  // namespace lithe
