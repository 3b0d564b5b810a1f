// Low-rank adapters beside a model's weights, which stay as they are.
#pragma once

#include "lithe/base/files.h"
#include "lithe/model/model.h"
#include "lithe/ops/weight_product.h"

namespace lithe {

/// Which weights an adapter of this run's is for: the checksum of weights_file(), or of what `lithe quantize` rounded
/// to it; empty where nobody knows that.
std::string adapter_base_checksum(const Path& run, const std::string& weights);

/// What `train.adapters` of type lora or rslora writes into adapter/ of a run: adapter_config.json and
/// adapter_model.safetensors in PEFT's layout, with this model's names of modules. Products with the weights W that it
/// names become x W + s (x A) B, in the model's compute dtype; the model may hold W packed or as integers.
class Adapter {
 public:
  /// Fails (usage) where the directory has none, where it holds more than low-rank updates (dora, whole parameters,
  /// biases), and where it is of another model: of other shapes or, where the adapter says of which weights it is, of
  /// others than those of `run` (weights as for weights_file) or than what they were rounded from.
  Adapter(const Model& model, const Path& directory, const Path& run = {}, const std::string& weights = "");
  const LowRankUpdates& updates() const { return updates_; }
  int64_t rank() const { return rank_; }  // the largest

 private:
  LowRankUpdates updates_;
  int64_t rank_ = 0;
};

}  // namespace lithe
