// Small updates of large models: low-rank adapters as views of frozen parameters.
#pragma once

#include "lithe/model/model.h"
#include "lithe/model/quantized_weights.h"
#include "lithe/recipe/recipe.h"

namespace lithe {

/// What a recipe's adapters are trained over and leave as it is: the integer weights of from_pretrained, but those of a
/// head that begins anew.
IntegerWeights integers_under_adapters(const Recipe& recipe);

/// Fails (usage) where a task's head begins anew and adapters would freeze it.
void check_adapted_head(const Recipe& recipe, const Model& model);

/// Freezes `model` but for what config.also names, and has each matrix W [R, C] of a linear map that config.targets
/// names read as
///   lora, rslora:  W + s A B,  A [R, r] random, B [r, C] zero at first, s = alpha / r, or alpha / sqrt(r) (rslora)
///   dora:          m (W + s A B) / |W + s A B|, norms of columns, m [C] at first those of W; they get no gradient
/// [Hu et al. 2022, Kalajdzievski 2023, Liu et al. 2024]. A, B and m are added to `parameters` as
/// "adapters.<name>.{lora_a,lora_b,magnitude}", which must live as long as the model.
class Adapters {
 public:
  Adapters(Model& model, const AdapterConfig& config, Parameters& parameters, uint64_t seed);

  /// After the model's weights are there for the first time: magnitudes become the norms of their columns.
  void begin();
  /// The model's parameters with what the adapters add, as they are read: model.safetensors of a model without
  /// adapters.
  void save_merged(const Path& file) const;
  /// adapter_model.safetensors and adapter_config.json in PEFT's layout, with this model's names of modules. `base`:
  /// the checksum of the file of weights that they are for (weights_fingerprint), empty where no file has just these.
  void save(const Path& directory, const std::string& base = "") const;

 private:
  struct Entry {
    Parameter *of, *a, *b, *magnitude;
  };
  Model& model_;
  AdapterConfig config_;
  std::vector<Entry> entries_;
};

}  // namespace lithe
