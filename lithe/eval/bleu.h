// BLEU (Papineni et al. 2002), equal to sacreBLEU's to the printed digit.
#pragma once

#include <array>
#include <optional>

#include "lithe/eval/bleu_tokenizers.h"
#include "lithe/eval/text_metric.h"

namespace lithe {

struct BleuOptions {
  std::string tokenizer = "13a";  // see bleu_tokenizers.h
  bool lowercase = false;
  /// What an order without matches counts (Chen and Cherry 2014): exp, 1/2, 1/4, ... of a match; floor,
  /// `smoothing_value` of one (0.1); add-k, `smoothing_value` (1) is added to matches and totals of orders above 1;
  /// none, 0.
  std::string smoothing = "exp";
  std::optional<double> smoothing_value;  // floor and add-k alone; above 0
  bool effective_order = false;           // only orders of which the hypothesis has n-grams: for single sentences
};

struct BleuScore {
  static constexpr int64_t orders = 4;

  double score = 0;                         // 0 to 100
  std::array<double, orders> precisions{};  // 0 to 100
  double brevity_penalty = 1;
  int64_t hypothesis_length = 0, reference_length = 0;  // words

  /// "BLEU = 27.3 60.1/33.2/20.5/13.0 (BP = 0.970 ratio = 0.971 hyp_len = 970 ref_len = 999)"
  std::string line(int digits = 1) const;
};

/// score = BP exp(mean_n log p_n), n = 1 to 4, p_n = matched / all n-grams of the hypotheses, each counted at most as
/// often as in one reference; BP = exp(min(0, 1 - r/h)) with the length of the reference nearest to the hypothesis'.
class Bleu : public TextMetric {
 public:
  /// Fails on unknown names and on a smoothing value that the method does not use or that is not above 0.
  explicit Bleu(BleuOptions options = {});

  std::string name() const override { return "BLEU"; }
  std::string signature(int64_t references) const override;
  /// [hypothesis length, reference length, matches of orders 1 to 4, n-grams of orders 1 to 4]
  TextCounts counts(std::string_view hypothesis, std::span<const std::string> references) const override;
  double score(const TextCounts& counts) const override { return details(counts).score; }
  BleuScore details(const TextCounts& counts) const;

 private:
  BleuOptions options_;
  BleuTokenizer tokenizer_;
};

BleuScore corpus_bleu(std::span<const std::string> hypotheses, const TextReferences& references,
                      const BleuOptions& options = {});
/// BLEU of one sentence, of the effective order.
BleuScore sentence_bleu(std::string_view hypothesis, std::span<const std::string> references, BleuOptions options = {});

}  // namespace lithe
