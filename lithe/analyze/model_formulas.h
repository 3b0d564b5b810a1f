// Sizes of the sources' models by their formulas.
#pragma once

#include <string>
#include <vector>

#include "lithe/analyze/attention_formulas.h"

namespace lithe::analyze {

/// Attention sub-layers of N layers: N of a decoder, 3N/2 of N/2 encoder layers and N/2 decoder layers that attend
/// twice.
int64_t attention_sublayers(int64_t layers, bool encoder_decoder);
/// Scalars of all attention sub-layers of a model.
int64_t projected_parameters(MixerKind kind, const MixerShape& s, int64_t sublayers, bool with_output);

/// The language models of the deconstruction study: RMSNorm, SwiGLU without biases, attention with q/k/v biases or with
/// norms on queries and keys instead.
struct DeconModel {
  std::string name;
  int64_t width, intermediate, layers, heads;
  bool qk_norms;
};
const std::vector<DeconModel>& decon_models();
/// All layers, without the last norm and the embedding.
int64_t layer_parameters(const DeconModel& m);
/// With the last norm and `vocabulary` rows, twice when the head has its own.
int64_t model_parameters(const DeconModel& m, int64_t vocabulary, bool tied);

/// The language models of the Hadamard paper: LayerNorm, SwiGLU of width floor(8d/3), biases on all linear maps, rotary
/// positions, a tied head.
struct HadamardModel {
  std::string name;
  int64_t width, layers;
};
const std::vector<HadamardModel>& hadamard_models();
/// Output dense or hadamard; `biases` off: neither linear maps nor norms have one, the Hadamard
/// output keeps its shift.
int64_t model_parameters(const HadamardModel& m, OutputKind output, int64_t vocabulary, bool biases = true);

}  // namespace lithe::analyze
