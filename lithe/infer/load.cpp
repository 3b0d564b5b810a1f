#include "lithe/infer/load.h"

#include "lithe/base/checksummed_blocks.h"
#include "lithe/infer/weights_file.h"
#include "lithe/model/packable.h"
#include "lithe/model/quantized_weights.h"

namespace lithe {
namespace {

void check_run(const Path& directory) {
  namespace fs = std::filesystem;
  const std::string name = cat("'", directory.string(), "'"), remedy = "; give the --out directory of a training run";
  check_usage(fs::exists(directory), "load", name, " does not exist", remedy);
  check_usage(fs::is_directory(directory), "load", name, " is a file, not a directory", remedy);
  check_usage(fs::exists(directory / "config.json"), "load", name, " has no config.json", remedy);
}

}  // namespace

Path weights_file(const Path& directory, const std::string& weights) {
  namespace fs = std::filesystem;
  check_run(directory);
  Path file = directory / "model.safetensors";
  if (weights == "best" || weights == "averaged")
    file = directory / weights / "model.safetensors";
  else if (!weights.empty())
    file = weights;
  check_usage(fs::exists(file), "load", "'", file.string(), "' does not exist",
              weights == "best"       ? "; the run has no held-out evaluation"
              : weights == "averaged" ? "; the run has not ended with train.average_checkpoints or ema_decay"
              : weights.empty()       ? "; the run has not saved a checkpoint yet"
                                      : "");
  return file;
}

uint64_t weights_fingerprint(const Path& directory, const std::string& weights) {
  constexpr size_t kBlock = size_t(1) << 26;
  const MappedFile file(weights_file(directory, weights));
  uint64_t sum = 0;
  for (size_t at = 0; at < file.size(); at += kBlock) {
    sum = checksum_of_mapped(file, at, std::min(kBlock, file.size() - at), sum);
  }
  return sum;
}

namespace {

LoadedModel load(const Path& directory, const std::string& weights, const std::string& precision, bool el_rewrite,
                 bool packed, Device device) {
  const Path file = weights_file(directory, weights);
  const DType dtype = dtype_named(precision);
  LoadedModel loaded;
  const Tokenizers tokenizers = load_tokenizers(directory);
  loaded.tokenizer = tokenizers.tokenizer;
  ModelConfig config = load_config(directory / "config.json");
  if (reads_source(config.architecture)) {
    loaded.source_tokenizer = tokenizers.source ? tokenizers.source : tokenizers.tokenizer;
    const int64_t entries = config.encoder_config().vocab_size;
    check(loaded.source_tokenizer->vocab_size() <= entries, "load", "'", directory.string(),
          "': the source tokenizer has ", loaded.source_tokenizer->vocab_size(), " entries, the encoder ", entries);
  }
  if (el_rewrite) config.replace_heads("mha", "el_rewrite");
  check(loaded.tokenizer->vocab_size() <= config.vocab_size, "load", "'", directory.string(), "': the tokenizer has ",
        loaded.tokenizer->vocab_size(), " entries, the model ", config.vocab_size);
  const std::set<std::string> integers = integer_weights(file);
  check(integers.empty() == config.quantization_config.is_null(), "load", "'", file.string(), "' holds ",
        integers.empty() ? "no " : "", "integer weights, and '", (directory / "config.json").string(), "' has ",
        integers.empty() ? "a" : "no",
        " quantization_config; both must come from one `lithe quantize` or `lithe import`");
  check_usage(integers.empty() || dtype != DType::f64, "load", "'", file.string(),
              "' holds integer weights, which have no f64 products; choose precision f32 or bf16");
  const auto products = packed && dtype != DType::f64 ? packed_products(config) : std::map<std::string, bool>{};
  loaded.model = std::make_unique<Model>(config, ModelOptions{.device = device,
                                                              .dtype = dtype,
                                                              .compute = dtype,
                                                              .integers = &integers,
                                                              .packed = &products,
                                                              .initialised = false});
  if (device == Device::meta)
    outline_integers(loaded.model->parameters(), {file, integers});
  else
    load_weights(*loaded.model, file);
  return loaded;
}

}  // namespace

LoadedModel load_model(const Path& directory, const std::string& weights, const std::string& precision, bool el_rewrite,
                       bool packed) {
  return load(directory, weights, precision, el_rewrite, packed, Device::cpu);
}

LoadedModel outline_model(const Path& directory, const std::string& weights, const std::string& precision) {
  return load(directory, weights, precision, false, false, Device::meta);
}

}  // namespace lithe
