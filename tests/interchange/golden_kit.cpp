#include "tests/interchange/golden_kit.h"

#include <algorithm>
#include <cmath>

#include "lithe/data/batches.h"
#include "lithe/data/features.h"
#include "lithe/model/safetensors.h"
#include "lithe/objective/device_batch.h"
#include "lithe/text/byte_alphabet.h"
#include "lithe/text/tokenizer_json.h"

namespace lithe::kit {
namespace {

uint32_t crc32(const std::string& text) {
  uint32_t crc = 0xffffffffu;
  for (unsigned char c : text) {
    crc ^= c;
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

Tensor tensor_of_ids(const std::vector<int32_t>& ids) {
  return tensor_of({int64_t(ids.size())}, std::span<const int32_t>(ids));
}

const Json& five() {
  static const Json all =
      parse_json(read_file("tests/golden/transformers_5.json", uint64_t(1) << 22), "transformers_5.json");
  return all;
}

}  // namespace

TransformersGolden::TransformersGolden(const Path& file)
    : json(parse_json(read_file(file), file.string())), name(json["name"]) {}

std::map<std::string, Tensor> TransformersGolden::tensors() const {
  const Json& f = json["formula"];
  std::map<std::string, Tensor> out;
  for (const auto& [name, entry] : json["tensors"].items()) {
    const Shape shape(entry[1].get<std::vector<int64_t>>());
    if (entry[0] != "F32") {
      out[name] = zeros(shape, DType::i64);  // buffers that hold no weights
      continue;
    }
    const Tensor x = empty(shape, DType::f32);
    const double phase = double(f["name"]) * (crc32(name) % 1000);
    for (int64_t i = 0; i < x.numel(); ++i) {
      const double s =
          std::sin(double(f["linear"]) * double(i) + double(f["square"]) * (double(i) * double(i)) + phase);
      const double value = shape.rank() > 1         ? double(f["matrix"]) * s
                           : name.ends_with("bias") ? double(f["bias"]) * s
                                                    : 1 + double(f["norm"]) * s;
      set_value(x, i, value);
    }
    out[name] = x;
  }
  return out;
}

void TransformersGolden::write(const Path& directory) const {
  make_directory(directory);
  write_file(directory / "config.json", json["config"].dump(2));
  write_safetensors(directory / "model.safetensors", tensors(), {{"format", "pt"}});
  if (json["config"]["model_type"] == "whisper") {
    const int64_t rows = json["config"]["max_source_positions"];
    write_file(directory / "tokenizer.json", whisper_tokenizer(int64_t(json["config"]["vocab_size"]) - 267));
    write_file(directory / "preprocessor_config.json", Json({{"feature_extractor_type", "WhisperFeatureExtractor"},
                                                             {"feature_size", json["config"]["num_mel_bins"]},
                                                             {"sampling_rate", 16000},
                                                             {"hop_length", 160},
                                                             {"n_fft", 400},
                                                             {"chunk_length", 0.02 * double(rows)},
                                                             {"n_samples", 320 * rows},
                                                             {"nb_max_frames", 2 * rows}})
                                                           .dump());
  } else {
    save_tokenizer(*make_byte_tokenizer(), directory);
  }
  if (json.contains("generation_config"))
    write_file(directory / "generation_config.json", json["generation_config"].dump());
}

ImportReport TransformersGolden::import_to(const Path& directory, const Path& run) const {
  return import_model({directory, run, {}, json.value("context_length", int64_t(0))});
}

std::vector<std::vector<double>> TransformersGolden::expected() const {
  return json[json.contains("rows") ? "rows" : "logits"].get<std::vector<std::vector<double>>>();
}

std::vector<std::vector<double>> TransformersGolden::of(const Model& model) const {
  const NoGrad no_grad;
  const auto ids = json["ids"].get<std::vector<int32_t>>();
  ModelInput input{tensor_of_ids(ids), Sequences::single(int64_t(ids.size()))};
  input.sources = sources();
  Pass pass;
  const Rows rows = model.run(input, pass);
  const Tensor x = json.contains("rows") ? rows.x.value() : model.logits(rows).value();
  const int64_t stride = x.cols() > 30 ? int64_t(json["stride"]) : 1;
  std::vector<std::vector<double>> out;
  for (int64_t n = 0; n < x.rows(); ++n) {
    out.emplace_back();
    for (int64_t c = 0; c < x.cols(); c += stride) out.back().push_back(value_at(x, n * x.cols() + c));
  }
  return out;
}

std::map<std::string, ModelInput> TransformersGolden::sources() const {
  if (json.contains("source")) {
    const auto read = json["source"].get<std::vector<int32_t>>();
    return {{kSource, {tensor_of_ids(read), Sequences::single(int64_t(read.size()))}}};
  }
  if (!json.contains("encoder")) return {};
  const int64_t rows = json["config"]["max_source_positions"], width = 2 * int64_t(json["config"]["num_mel_bins"]);
  std::vector<float> numbers;
  for (int64_t i = 0; i < rows * width; ++i)
    numbers.push_back(float(std::sin(double(json["formula"]["linear"]) * double(i) +
                                     double(json["formula"]["square"]) * (double(i) * double(i))) /
                            2));
  lithe::Batch batch{.offsets = {0, 0}};
  add_feature_rows(batch, "audio", rows, width, numbers);
  return {{kSource, to_device(batch, Device::cpu).input}};
}

std::vector<int64_t> TransformersGolden::greedy(const Model& model, size_t count) const {
  const NoGrad no_grad;
  auto next = json["ids"].get<std::vector<int32_t>>();
  const auto state = model.make_state(1, int64_t(next.size() + count));
  if (const auto read = sources(); !read.empty()) model.read_sources(*state, read);
  std::vector<int64_t> out;
  while (out.size() < count) {
    const Sequences more = model.continue_sequences(*state, {int64_t(next.size())});
    const Tensor logits = kit::logits(model, tensor_of_ids(next), more, state.get()).value();
    int64_t best = 0;
    const int64_t last = (logits.rows() - 1) * logits.cols();
    for (int64_t c = 0; c < logits.cols(); ++c)
      if (value_at(logits, last + c) > value_at(logits, last + best)) best = c;
    out.push_back(best);
    next = {int32_t(best)};
  }
  return out;
}

std::string whisper_tokenizer(int64_t times) {
  BpeDescription description;
  for (int b = 0; b < 256; ++b) description.vocabulary.push_back(spell_bytes(std::string(1, char(b))));
  description.words = false;
  for (const char* name : {"endoftext", "startoftranscript", "en", "de", "fr", "translate", "transcribe", "startoflm",
                           "startofprev", "nospeech", "notimestamps"})
    description.added.push_back(
        {.id = int32_t(256 + description.added.size()), .content = cat("<|", name, "|>"), .special = true});
  for (int64_t i = 0; i < times; ++i) {
    char text[20];
    std::snprintf(text, sizeof text, "<|%.2f|>", 0.02 * double(i));
    description.added.push_back({.id = int32_t(256 + description.added.size()), .content = text, .special = false});
  }
  return byte_level_bpe_json(description);
}

double relative_difference(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b) {
  if (a.size() != b.size()) return INFINITY;
  double most = 0, size = 0;
  for (size_t n = 0; n < a.size(); ++n) {
    if (a[n].size() != b[n].size()) return INFINITY;
    for (size_t c = 0; c < a[n].size(); ++c) {
      most = std::max(most, std::abs(a[n][c] - b[n][c]));
      size = std::max(size, std::abs(b[n][c]));
    }
  }
  return most / size;
}

std::vector<std::string> saved_again() {
  std::vector<std::string> out;
  for (const auto& [name, golden] : five().items()) out.push_back(name);
  return out;
}

TransformersGolden in_version_5(const std::string& name) {
  TransformersGolden golden("tests/golden/transformers/" + name + ".json");
  for (const auto& [key, value] : five()[name].items()) golden.json[key] = value;
  return golden;
}

std::vector<Path> transformers_goldens() { return glob("tests/golden/transformers/*.json"); }

}  // namespace lithe::kit
