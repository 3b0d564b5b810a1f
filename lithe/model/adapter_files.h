// Low-rank adapters in PEFT's files: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <map>
#include <string>

#include "lithe/base/files.h"
#include "lithe/base/json.h"
#include "lithe/tensor/tensor.h"

namespace lithe {

/// W [inputs, outputs] of a linear map gets scale (b a)^T.
struct LowRankUpdate {
  Tensor a, b;  // f32 [r, inputs], [outputs, r]
  double scale = 1;
};

struct AdapterFiles {
  Json config = Json::object();
  std::map<std::string, LowRankUpdate> updates = {};  // by the name of the module
  std::string base = {};                              // checksum of the weights that it is for; empty: nobody knows it
  std::map<std::string, Tensor> others = {};  // whole parameters and lengths of columns, by their names in the file
};

/// Reads them. Fails (usage), naming the file, where they hold more than low-rank updates (dora, whole parameters,
/// biases) or what does not go together; on numbers that are not finite.
AdapterFiles read_adapter(const Path& directory);

/// Writes them with r and lora_alpha, and patterns for modules that differ, where `config` does not say these.
void write_adapter(const Path& directory, AdapterFiles files);

}  // namespace lithe
