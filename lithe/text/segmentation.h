// Segmentations drawn at random, so that a model sees one text cut in many ways while it is trained.
#pragma once

#include <cstdint>
#include <optional>

namespace lithe {

class Fields;

/// How Tokenizer::sample cuts a text. The default cuts it as encode() does. `dropout` belongs to BPE, all else to
/// unigram tokenizers, where the score of a segmentation is log P - length_penalty * tokens.
struct SegmentationSampling {
  double dropout = 0;           // BPE: probability in [0, 1] that a merge is passed over; 1 leaves bytes or characters
  std::optional<double> alpha;  // at least 0: draw with probability ~ exp(alpha * score); absent: the best score
  double length_penalty = 0;    // lambda, at least 0: what a token costs beyond its log-probability
  int64_t candidates = 0;       // draw among so many of the best segmentations only, at most 1000; 0: among all

  /// Recipe keys, for a section of training.
  void fields(Fields& f);
  /// True when sample() is encode().
  bool off() const { return dropout == 0 && !alpha && length_penalty == 0; }
  /// Fails, as wrong usage, on values outside the ranges above and on `candidates` without `alpha`.
  void validate() const;
};

}  // namespace lithe
