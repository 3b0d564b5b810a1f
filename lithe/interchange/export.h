// Run directories as models of other programs.
#pragma once

#include <string>

#include "lithe/base/files.h"

namespace lithe {

struct ExportOptions {
  Path run, out;
  std::string weights;                        // best, averaged, or a safetensors file; empty: model.safetensors
  std::string format = "huggingface", dtype;  // gguf: the file's type (f32, bf16, q8_0, q4_0); empty: as in the run
  bool overwrite = false;                     // `out` may be what an export wrote before
};

struct ExportReport {
  std::string model_type;
  int64_t tensors = 0, parameters = 0;
  uint64_t bytes = 0;
};

/// Writes a directory that transformers loads, or a GGUF file. Fails (usage), naming the part, when the model has one
/// without a form there; nothing is written unless reading the result back gives the same model.
ExportReport export_model(const ExportOptions& options);

}  // namespace lithe
