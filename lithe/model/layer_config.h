// What one layer of a model consists of.
#pragma once

#include <optional>

#include "lithe/base/fields.h"
#include "lithe/nn/model_input.h"

namespace lithe {

/// A sub-layer in the order of its layer.
struct SubLayerConfig {
  enum class Kind { mixer, cross, ffn };  // cross: the mixer by which a decoder reads its source
  Kind kind = Kind::mixer;
  PartChoice part;
  double scale = 1;                         // of its result, before it is wired; 0: left out
  std::string name;                         // mixer, cross, ffn; a second one is ffn_2
  std::string source = kSource;             // cross: the encoder that it reads
  std::optional<PartChoice> residual = {};  // its own wiring; none: the layer's
};

struct LayerConfig {
  std::vector<SubLayerConfig> sub_layers;
  PartChoice norm, residual;
  std::optional<PartChoice> position;    // none: the model's
  std::optional<PartChoice> compressor;  // of the rows that enter the layer; none: they stay
  std::optional<PartChoice> expander;    // gives them back; none: they stay

  /// The first mixer, or null.
  const PartChoice* mixer() const;
};

/// What a layer has where its section does not say otherwise.
struct LayerDefaults {
  PartChoice mixer, ffn, norm, residual;
  Node cross;  // a mixer, or empty: each layer's own in its cross form
  // Names of the encoders, the first of which cross reads by itself; none: sub-layers are mixer, ffn.
  std::vector<std::string> sources = {};
};

/// The layer that `node` describes, a section with keys mixer, ffn, norm, residual, position, compressor,
/// expander and sub_layers; null: all as by default. `where` is the section that errors name. `sub_layers` lists what
/// the layer runs in order: mixer, ffn or cross for the layer's own, {ffn: part, scale: 0.5}, or {cross: part, source:
/// name}; `residual: part` in an item wires it in its own way.
LayerConfig read_layer(const Node& node, const std::string& where, const LayerDefaults& defaults);

/// The part that stands under `name` in `section`, its options read.
PartChoice read_part(const Node& node, const std::string& name, const char* slot, const std::string& section,
                     PartChoice otherwise);

/// Null, or a section without keys.
bool is_empty(const Node& node);

}  // namespace lithe
