// TER (Snover et al. 2006): edits that make a hypothesis its reference, where words may move, equal to sacreBLEU's.
#pragma once

#include "lithe/eval/text_metric.h"

namespace lithe {

/// score = 100 edits / words of the references (their mean where there are several, against the edits of the nearest).
/// Words are in lower case, between white space. A move of at most 10 words over at most 50 counts one edit, as an
/// insertion, deletion or substitution does; moves are taken as Tercom takes them, each the one that saves most.
class TranslationEditRate : public TextMetric {
 public:
  std::string name() const override { return "TER"; }
  std::string signature(int64_t references) const override;
  /// [edits, words of all references, references, segments]
  TextCounts counts(std::string_view hypothesis, std::span<const std::string> references) const override;
  double score(const TextCounts& counts) const override;
};

}  // namespace lithe
