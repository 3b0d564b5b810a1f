#include "lithe/base/output_directory.h"
#include "lithe/interchange/export_parts.h"
#include "lithe/interchange/gguf_names.h"
#include "lithe/ops/rotary.h"
#include "lithe/recipe/recipe.h"

namespace lithe {
namespace {

// What llama3's scaling divides the angle of each pair by: plain / scaled.
Tensor llama3_factors(const Json& config, int64_t head_dim) {
  const Json& s = config["rope_scaling"];
  RotaryScaling how{.scaling = "llama3",
                    .factor = s["factor"],
                    .low_freq_factor = s["low_freq_factor"],
                    .high_freq_factor = s["high_freq_factor"],
                    .original_max_position_embeddings = s["original_max_position_embeddings"]};
  const double base = config["rope_theta"];
  const std::vector<double> scaled = rotary_frequencies(base, head_dim, how),
                            plain = rotary_frequencies(base, head_dim, {});
  const Tensor out = empty({head_dim / 2}, DType::f32);
  for (int64_t i = 0; i < out.numel(); ++i) set_value(out, i, plain[size_t(i)] / scaled[size_t(i)]);
  return out;
}

}  // namespace

ExportReport export_gguf(const ExportOptions& o) {
  constexpr uint32_t kU32 = 4, kText = 8;
  check_usage(!std::filesystem::exists(o.out) || (o.overwrite && !std::filesystem::is_directory(o.out)), "export", "'",
              o.out.string(), "' exists; give --out a new file");
  const RunToExport run = read_run(o);
  Described described = describe_model(run.config, {"llama", "mistral", "qwen2", "qwen3", "olmo2", "gpt2"});
  std::string family = described.config["model_type"];
  check_usage(!described.config.contains("sliding_window") || described.config["sliding_window"].is_null(), "export",
              "GGUF's ", family, " has no sliding window, which this model has");
  if (family == "mistral") family = "llama";
  const PartChoice& position = run.config.position;
  rename_for_gguf(described.mapping, family);
  const auto written = write_parameters(run.parameters, described.mapping);

  const std::string type = o.dtype.empty() ? "" : o.dtype;
  std::vector<GgufTensor> tensors;
  std::vector<std::string> plain;
  for (const auto& [name, tensor] : written) {
    GgufTensor out{name, tensor, tensor.dtype == DType::bf16 ? GgmlType::bf16 : GgmlType::f32};
    if (type == "f32" || tensor.shape.rank() == 1)
      out.type = GgmlType::f32;  // vectors stay as they are, as in llama.cpp
    else if (type == "bf16")
      out.type = GgmlType::bf16;
    else if (type == "q8_0" || type == "q4_0")
      out.type = tensor.shape[-1] % 32 ? GgmlType::f32 : type == "q8_0" ? GgmlType::q8_0 : GgmlType::q4_0;
    tensors.push_back(out);
  }
  if (option(position, "scaling") == "llama3") {
    const int64_t heads = described.config["num_attention_heads"],
                  head_dim = described.config.contains("head_dim") ? described.config["head_dim"].get<int64_t>()
                                                                   : run.config.hidden_size / heads;
    tensors.push_back({"rope_freqs.weight", pending(llama3_factors(described.config, head_dim)), GgmlType::f32});
  }
  const std::map<std::string, int64_t> file_types{{"f32", 0}, {"", 0}, {"q4_0", 2}, {"q8_0", 7}, {"bf16", 32}};
  std::vector<GgufPair> metadata{{"general.architecture", {family}, kText},
                                 {"general.name", {o.run.filename().string()}, kText},
                                 {"general.file_type", {file_types.at(type)}, kU32}};
  if (type == "q8_0" || type == "q4_0") metadata.push_back({"general.quantization_version", {int64_t(2)}, kU32});
  for (auto& pair : gguf_of_config(described.config, family)) metadata.push_back(pair);
  for (auto& pair :
       gguf_of_tokenizer(*run.tokenizer, run.config.vocab_size, recipe_of_run(o.run).generate.add_bos_token))
    metadata.push_back(pair);
  const MadeDirectory parent(std::filesystem::absolute(o.out).parent_path());
  write_gguf(o.out, metadata, tensors);
  ExportReport report{.model_type = family,
                      .tensors = int64_t(tensors.size()),
                      .parameters = 0,
                      .bytes = std::filesystem::file_size(o.out)};
  for (const auto& [name, tensor] : run.parameters) report.parameters += tensor.shape.numel();
  return report;
}

}  // namespace lithe
