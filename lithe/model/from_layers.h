// A model that begins with some layers of a trained one.
#pragma once

#include "lithe/model/model.h"

namespace lithe {

/// Layers of a trained model, from 1, that the layers of another begin as, in order; of an encoder-decoder the
/// decoder's and the encoder's. None: those in the same places.
struct FromLayers {
  std::vector<int64_t> layers, encoder;
  bool any() const { return !layers.empty() || !encoder.empty(); }
};

/// The keys of section model of a trained one, changed to these layers. Fails (usage) on layers that it does not have,
/// and where layers share parameters or are named by the depth.
void keep_layers(Node& model, const FromLayers& from);

/// Reads parameters from the weights of a model, layer by layer: those that are there with the same shape, the head
/// included; the others stay as they are, and the log names them. Fails (usage) where the number of layers is another
/// than `from` names, and where nothing fits.
void load_layers(Model& model, const Path& file, const FromLayers& from);

}  // namespace lithe
