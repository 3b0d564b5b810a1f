// A trained model from its directory.
#pragma once

#include <memory>

#include "lithe/model/model.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

struct LoadedModel {
  std::unique_ptr<Model> model;
  std::shared_ptr<const Tokenizer> tokenizer;
};

/// Reads config.json, tokenizer.json and the weights: `weights` is empty (model.safetensors), "best", or a file.
/// `precision` f32, bf16 (weights and rows) or f64. Fails when the directory is no model, naming what is missing.
LoadedModel load_model(const Path& directory, const std::string& weights, const std::string& precision);

}  // namespace lithe
