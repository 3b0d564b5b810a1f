// chrF and chrF++ (Popovic 2015, 2017): F-scores of character and word n-grams, equal to sacreBLEU's.
#pragma once

#include "lithe/eval/text_metric.h"

namespace lithe {

struct ChrfOptions {
  int64_t char_order = 6;
  int64_t word_order = 0;  // 2: chrF++
  int64_t beta = 2;        // recall counts beta times as much as precision
  bool lowercase = false;
};

/// score = (1 + beta^2) P R / (beta^2 P + R), with the means P and R over the orders of which both sides have n-grams
/// of the share of matched n-grams in the hypotheses and in the references. Of several references that counts which
/// scores best for the segment alone. White space is left out; words lose one ASCII punctuation mark at an end.
class Chrf : public TextMetric {
 public:
  /// Fails on an order below 0, none at all, and on beta below 1.
  explicit Chrf(ChrfOptions options = {});

  /// "chrF2", "chrF2++".
  std::string name() const override;
  std::string signature(int64_t references) const override;
  /// For each order, of characters then of words: [n-grams of the hypothesis, of the reference, matches].
  TextCounts counts(std::string_view hypothesis, std::span<const std::string> references) const override;
  double score(const TextCounts& counts) const override;

 private:
  ChrfOptions options_;
};

double corpus_chrf(std::span<const std::string> hypotheses, const TextReferences& references,
                   const ChrfOptions& options = {});
double sentence_chrf(std::string_view hypothesis, std::span<const std::string> references,
                     const ChrfOptions& options = {});

}  // namespace lithe
