#include "lithe/eval/translation_scores.h"

#include <cstdio>

#include "lithe/base/error.h"
#include "lithe/eval/chrf.h"

namespace lithe {

const std::vector<TranslationMetric>& translation_metrics() {
  static const std::vector<TranslationMetric> all = {
      {"bleu", Better::higher, "matched n-grams of words, 1 to 4, with a penalty for brevity; 0 to 100"},
      {"chrf", Better::higher, "F-score of n-grams of characters, 1 to 6, recall counted twice; 0 to 100"}};
  return all;
}

double TranslationScores::value(const std::string& metric) const {
  check_usage(metric == "bleu" || metric == "chrf", "translation", "the metric must be bleu or chrf, got '", metric,
              "'");
  return metric == "bleu" ? bleu.score : chrf;
}

std::string TranslationScores::text() const {
  char number[64];
  std::snprintf(number, sizeof number, "%.1f", chrf);
  return cat("BLEU|", bleu_signature, bleu.line().substr(4), "\n", "chrF2|", chrf_signature, " = ", number, "\n");
}

TranslationScores score_translations(std::span<const std::string> hypotheses, const TextReferences& references,
                                     const BleuOptions& options) {
  const Bleu bleu(options);
  const Chrf chrf({.lowercase = options.lowercase});
  const auto count = int64_t(references.size());
  return {.bleu = bleu.details(sum_counts(segment_counts(bleu, hypotheses, references))),
          .chrf = chrf.score(sum_counts(segment_counts(chrf, hypotheses, references))),
          .segments = int64_t(hypotheses.size()),
          .bleu_signature = bleu.signature(count),
          .chrf_signature = chrf.signature(count)};
}

Json TranslationScores::json() const {
  return {{"bleu", bleu.score},
          {"chrf", chrf},
          {"segments", segments},
          {"bleu_signature", bleu_signature},
          {"chrf_signature", chrf_signature}};
}

}  // namespace lithe
