// What a translation is worth: BLEU and chrF of hypotheses against references.
#pragma once

#include "lithe/base/json.h"
#include "lithe/eval/bleu.h"
#include "lithe/eval/metrics.h"

namespace lithe {

struct TranslationMetric {
  std::string name;
  Better better;
  std::string help;  // one line
};

/// The metrics that evaluation while training knows, of which one decides which model is kept: bleu, chrf.
const std::vector<TranslationMetric>& translation_metrics();

struct TranslationScores {
  BleuScore bleu;
  double chrf = 0;  // chrF2, 0 to 100
  int64_t segments = 0;
  std::string bleu_signature, chrf_signature;

  /// The value of one of translation_metrics(), 0 to 100; fails on another name.
  double value(const std::string& metric) const;
  /// A line for each metric as sacreBLEU prints it, behind it the signature: "BLEU|nrefs:1|... = 27.3 60.1/...".
  std::string text() const;
  /// bleu, chrf, segments, and the signatures.
  Json json() const;
};

/// Both metrics; what fails is said at segment_counts.
TranslationScores score_translations(std::span<const std::string> hypotheses, const TextReferences& references,
                                     const BleuOptions& options = {});

}  // namespace lithe
