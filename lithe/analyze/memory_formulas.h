// Bytes of one layer's mixer by the formulas of the sources: training, activations, decode cache.
#pragma once

#include "lithe/analyze/attention_formulas.h"

namespace lithe::analyze {

/// Training of an attention block with `parameters` scalars: weights and gradients 6 bytes each, Adam 8, and 2 bytes
/// for each activation of B x T x d.
struct TrainMemory {
  double weights = 0, gradients = 0, adam = 0, activations = 0;
  double total() const { return weights + gradients + adam + activations; }
};
TrainMemory train_memory(int64_t parameters, const Work& w, int64_t width);

/// Activations of half precision kept for the backward pass, divided over `ways` devices. `published`: the sources'
/// row; `exact`: the sum of what they itemise (input, queries, keys, values, weights). None where they give no row.
std::optional<double> activation_bytes(MixerKind kind, const MixerShape& s, const Work& w,
                                       Convention c = Convention::exact, double ways = 1);

/// Decode cache of B texts of L tokens in scalars of `item` bytes.
double cache_bytes(MixerKind kind, const MixerShape& s, const Work& w, double item = 2);

}  // namespace lithe::analyze
