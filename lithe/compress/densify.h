// Novel parts folded into standard ones, where the mathematics allows it exactly.
#pragma once

#include <map>

#include "lithe/model/model.h"

namespace lithe {

struct Densified {
  ModelConfig config;
  std::map<std::string, Tensor> parameters;  // all of the model, in the type that they had; folded ones in f32 or f64
  std::vector<std::string> folded;           // "layers.0.mixer: heads mhe_mul, output hadamard -> mha, dense"
  double largest_difference = 0;             // of logits in f64, relative to the largest
  int64_t parameters_before = 0, parameters_after = 0;
};

/// The model with every attention's heads as plain projections (mha, or gqa where heads share keys) and its output as a
/// dense matrix, an embedding of ids as a table, and layers that share parameters with copies of their own. Both models
/// are run on random tokens in f64 before it returns. Fails (usage), naming the part, on what does not fold: other
/// mixers, rotations before head embeddings, heads that read the embedding, codes of words, which have no vocabulary.
Densified densify(const ModelConfig& config, const std::map<std::string, Tensor>& parameters);

/// A model with these parameters, in f64. All must be there, of the right shapes.
std::unique_ptr<Model> exact_model(const ModelConfig& config, const std::map<std::string, Tensor>& parameters);

}  // namespace lithe
