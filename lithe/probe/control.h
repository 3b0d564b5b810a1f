// What a predictor learns by itself: control labels, and the bits that labels cost it.
#pragma once

#include "lithe/probe/predictor.h"

namespace lithe::probe {

// spec: probe.control | analysis | random labels by word type, selectivity, description length; trivial baselines | TB
// 6.2.5
/// The control label of a word: drawn once for each word and seed, with the frequencies of the labels [classes].
int32_t control_label(const std::string& word, const std::vector<int64_t>& counts, uint64_t seed);
/// The same instances with control labels, drawn by the frequencies of `train`'s labels.
Dataset with_control_labels(const Dataset& data, const Dataset& train, int64_t classes, uint64_t seed);

/// The description length of the labels by online coding [Voita and Titov 2020]: a first block coded evenly, then each
/// by a predictor trained on all before it. Blocks end at these shares of the instances, in an order that the seed
/// decides.
inline const std::vector<double> kCodingFractions{0.001,  0.002, 0.004, 0.008, 0.016, 0.032,
                                                  0.0625, 0.125, 0.25,  0.5,   1.0};
struct DescriptionLength {
  double bits = 0, uniform_bits = 0;
  std::vector<double> block_bits;
  double compression() const { return bits > 0 ? uniform_bits / bits : 0; }
};
DescriptionLength description_length(const PredictorConfig& config, const Dataset& train, int64_t classes,
                                     const Layers& layers);

}  // namespace lithe::probe
