#include "lithe/analyze/model_formulas.h"

#include "lithe/base/error.h"

namespace lithe::analyze {

int64_t attention_sublayers(int64_t layers, bool encoder_decoder) { return encoder_decoder ? layers * 3 / 2 : layers; }

// spec: metric.scaling_projection | cost model | attention parameters of models of any size | TH 3.5.4
int64_t projected_parameters(MixerKind kind, const MixerShape& s, int64_t sublayers, bool with_output) {
  return sublayers * (mixer_parameters(kind, s) + (with_output ? output_parameters(OutputKind::dense, s) : 0));
}

// spec: decon.model_sizes | cost model | parameters of the 70M, 160M, 500M and 1.7B models | TH Tables 4.9-4.10
const std::vector<DeconModel>& decon_models() {
  static const std::vector<DeconModel> models = {{"70M", 512, 2048, 6, 8, false},
                                                 {"160M", 768, 3072, 12, 12, false},
                                                 {"500M", 896, 4864, 24, 14, false},
                                                 {"1.7B", 2048, 6144, 28, 16, true}};
  return models;
}

int64_t layer_parameters(const DeconModel& m) {
  const int64_t d = m.width, more = m.qk_norms ? 2 * (d / m.heads) : 3 * d;
  return m.layers * (4 * d * d + more + 3 * d * m.intermediate + 2 * d);
}

int64_t model_parameters(const DeconModel& m, int64_t vocabulary, bool tied) {
  return layer_parameters(m) + m.width + (tied ? 1 : 2) * vocabulary * m.width;
}

// spec: acct.hadamard | cost model | parameters of models with dense and with Hadamard outputs | HP Tables 2-3, 4.2
const std::vector<HadamardModel>& hadamard_models() {
  static const std::vector<HadamardModel> models = {{"Tiny", 768, 12}, {"Small", 1024, 24}, {"Base", 1536, 24}};
  return models;
}

int64_t model_parameters(const HadamardModel& m, OutputKind output, int64_t vocabulary, bool biases) {
  check(output != OutputKind::none, "model_parameters", "the output must be dense or hadamard");
  const int64_t d = m.width, inner = 8 * d / 3;
  const int64_t attention =
      output == OutputKind::dense ? 4 * d * d + (biases ? 4 * d : 0) : 3 * d * d + 2 * d + (biases ? 3 * d : 0);
  const int64_t feed_forward = 3 * d * inner + (biases ? 2 * inner + d : 0), norm = (biases ? 2 : 1) * d;
  return vocabulary * d + m.layers * (attention + feed_forward + 2 * norm) + norm;
}

}  // namespace lithe::analyze
