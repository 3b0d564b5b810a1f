// How sure the difference of two systems is: bootstrap resampling of segments (Koehn 2004), as sacreBLEU defines it.
#pragma once

#include "lithe/eval/text_metric.h"

namespace lithe {

/// A score with what resampling says about it.
struct ResampledScore {
  double score = 0;          // of the segments as they are
  double mean = 0;           // over the resamples
  double low = 0, high = 0;  // 95 % of the resamples lie between
  /// What sacreBLEU prints as "mean ± half width".
  double half_width() const { return (high - low) / 2; }
};

struct PairedBootstrap {
  ResampledScore baseline, system;
  /// How likely resamples are to differ from their mean difference by more than the systems do: (count + 1) / (samples
  /// + 1) over |system - baseline|. Equal systems give the least p: a difference of nothing is no chance.
  double p = 1;
};

/// Draws as many segments as there are, with replacement, `samples` times, the same for both systems. Resample s is a
/// pure function of (seed, s).
ResampledScore bootstrap(const TextMetric& metric, const std::vector<TextCounts>& system, int64_t samples = 1000,
                         uint64_t seed = 12345);
/// Both systems' counts are of the same segments; fails when their numbers differ, and on no samples.
PairedBootstrap paired_bootstrap(const TextMetric& metric, const std::vector<TextCounts>& baseline,
                                 const std::vector<TextCounts>& system, int64_t samples = 1000, uint64_t seed = 12345);

}  // namespace lithe
