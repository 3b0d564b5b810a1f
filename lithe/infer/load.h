// A trained model from its directory.
#pragma once

#include <memory>

#include "lithe/model/model.h"
#include "lithe/text/tokenizer.h"

namespace lithe {

struct LoadedModel {
  std::unique_ptr<Model> model;
  std::shared_ptr<const Tokenizer> tokenizer, source_tokenizer;  // source: of an encoder-decoder, may be the same
};

/// Reads config.json, tokenizer.json and the weights: `weights` is empty (model.safetensors), "best", "averaged", or a
/// file.
/// `precision` f32, bf16 (weights and rows) or f64. Fails when the directory is no model, naming what is missing.
/// `packed`: the weights of products are packed for inference, so that they cannot be read as numbers.
/// `el_rewrite`: attention with heads mha runs with heads el_rewrite, which are the same function with half the cache.
LoadedModel load_model(const Path& directory, const std::string& weights, const std::string& precision,
                       bool el_rewrite = false, bool packed = true);

/// The same on the meta device: shapes, without numbers.
LoadedModel outline_model(const Path& directory, const std::string& weights, const std::string& precision);

}  // namespace lithe
