// What a model costs, part by part: from a run on tensors without data ("exact"), beside the sources' formulas.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lithe/data/features.h"
#include "lithe/model/model.h"

namespace lithe::analyze {

/// By the sources' published formulas, none where they give none. FLOPs and parameters include the output projection.
struct PublishedCost {
  std::optional<double> parameters, prefill_flops, decode_flops, activation_bytes, cache_bytes;
  bool any() const { return parameters || prefill_flops || decode_flops || activation_bytes || cache_bytes; }
};

struct CostOfPart {
  // Layers merged: "layers.*.mixer"; in hybrids one for each kind: "layers.*.mixer (replaced)"; an encoder-decoder's
  // under "encoder." and "decoder.".
  std::string part;
  int64_t parameters = 0;
  double forward_flops = 0, prefill_flops = 0, decode_flops = 0;
  double forward_products = 0, prefill_products = 0, decode_products = 0;  // of these, products of matrices
  int64_t activation_bytes = 0, cache_bytes = 0;
  PublishedCost published;
};

struct CostOptions {
  int64_t batch = 1, length = 1024;
  int64_t source_length = 0;                       // of an encoder-decoder's sources; 0: length
  DType dtype = DType::f32, compute = DType::f32;  // parameters, rows
  bool recompute = false;
  /// Of each text (of an encoder-decoder, of its source), which is not longer for them; a shorter one has none.
  std::map<std::string, FeatureShape> features = {};
};

struct ModelCost {
  std::vector<CostOfPart> parts;
  CostOfPart total;
  int64_t source_length = 0;  // of what each text is read beside; 0: nothing
  bool decodes = true;        // an encoder does not: it has a forward pass alone
};

/// forward: B texts of L tokens without a cache, as in training and evaluation; prefill: the same into an empty cache;
/// both with logits of the last token of each. decode: token L of each text, L - 1 in the cache. activations: kept at
/// the end of the forward pass of training B texts of L tokens. cache: B texts of L tokens. Of causal attention only
/// the pairs that are seen count. An encoder-decoder reads a source before each text: what the encoder does, and what
/// cross-attention makes of its rows, is of forward and prefill, not of decode; cross-attention's cache is of sources.
/// An encoder has forward alone, with its head's predictions of the whole texts.
ModelCost model_cost(const ModelConfig& config, const CostOptions& options);

/// One layer's mixer as the recipe has it by the sources' formulas; `item`: bytes of a scalar of rows.
PublishedCost published_cost(const ModelConfig& config, const PartChoice& mixer, const CostOptions& options);

}  // namespace lithe::analyze
