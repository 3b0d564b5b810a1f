// Directories of the Hugging Face format, made of the golden files of tests/golden/transformers.
#pragma once

#include <map>
#include <string>

#include "lithe/base/json.h"
#include "lithe/infer/load.h"
#include "lithe/interchange/import.h"
#include "lithe/tensor/tensor.h"

namespace lithe::kit {

struct TransformersGolden {
  explicit TransformersGolden(const Path& file);
  Json json;
  std::string name;

  /// config.json, model.safetensors with weights by the formula, and the files of a byte tokenizer.
  void write(const Path& directory) const;
  std::map<std::string, Tensor> tensors() const;
  /// Imports what write() wrote.
  ImportReport import_to(const Path& directory, const Path& run) const;
  /// What transformers gave, [rows, columns that were kept].
  std::vector<std::vector<double>> expected() const;
  /// The same of an imported model.
  std::vector<std::vector<double>> of(const Model& model) const;
  std::vector<int64_t> greedy(const Model& model, size_t count) const;
  /// What the encoder of an encoder-decoder reads: tokens, or of Whisper frames by the formula.
  std::map<std::string, ModelInput> sources() const;
};

/// Bytes, <|endoftext|>, Whisper's other tokens with the languages en, de and fr, and `times` times.
std::string whisper_tokenizer(int64_t times);

/// The largest difference, relative to the largest number expected.
double relative_difference(const std::vector<std::vector<double>>& a, const std::vector<std::vector<double>>& b);

std::vector<Path> transformers_goldens();
/// Names of those that version 5 of transformers loaded and saved.
std::vector<std::string> saved_again();
/// Such a golden model in the files of version 5.
TransformersGolden in_version_5(const std::string& name);

}  // namespace lithe::kit
