// Models of other programs as run directories.
#pragma once

#include <vector>

#include "lithe/base/files.h"

namespace lithe {

struct ImportOptions {
  Path from;                   // a directory of the Hugging Face format, or a GGUF file
  Path out;                    // a new directory
  Path tokenizer;              // where the tokenizer's files are; empty: with the model
  int64_t context_length = 0;  // tokens of the longest text, where positions allow any; 0: config.json's
  bool overwrite = false;      // `out` may be what an import wrote before
  bool dequantize = false;     // blocks of integers of a GGUF file become numbers
};

struct ImportReport {
  std::string model_type;
  int64_t parameters = 0, tensors = 0;
  std::string dtype;                 // of the weights, "f32, bf16"
  std::vector<std::string> dropped;  // tensors that no result of the imported model needs
  std::vector<std::string> notes;
};

/// Writes config.json, model.safetensors, the tokenizer's files, generation_config.json and resolved_recipe.yaml, which
/// generate, eval, encode, inspect, quantize and train read as those of a run.
ImportReport import_model(const ImportOptions& options);

}  // namespace lithe
