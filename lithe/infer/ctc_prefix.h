// How likely labels are as the beginning of what rows of connectionist temporal classification say, for searches that
// write label after label [Watanabe et al. 2017; spec app.ctc].
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lithe/model/model.h"

namespace lithe {

class CtcPrefixScores {
 public:
  /// Logits [T, C] of one sequence, the blank last.
  explicit CtcPrefixScores(const Tensor& logits);
  int64_t labels() const { return int64_t(blank_); }
  /// log P of all label sequences that begin with `prefix`.
  double prefix(std::span<const int32_t> prefix) const;
  /// log P of the sequence itself: minus its CTC loss.
  double whole(std::span<const int32_t> sequence) const;
  /// What is next behind `prefix`: out[c] = prefix(prefix c) - prefix(prefix), out[labels()] = whole(prefix) -
  /// prefix(prefix); all of them, as probabilities, sum to 1. -inf where nothing begins so.
  std::vector<double> next(std::span<const int32_t> prefix) const;

 private:
  // Of the alignments of rows up to each that write a prefix: log P of those that end in its last label, and in blank.
  struct Alignments {
    std::vector<double> label, blank;  // [T]
    double prefix = 0;                 // log P of all that begin with it
  };
  int64_t rows_;
  size_t blank_;
  std::vector<double> log_p_;  // [T, C]

  double log_p(int64_t row, size_t label) const { return log_p_[size_t(row) * (blank_ + 1) + label]; }
  Alignments of(std::span<const int32_t> prefix) const;
  Alignments with(const Alignments& before, std::span<const int32_t> prefix, int32_t label) const;
  double ends(const Alignments& at) const;
};

/// What the first compressor ctc_adapter of the encoder says of the rows that it reads of one source: logits [T, C].
/// Fails (usage) on a model without one, and on several sources.
Tensor encoder_ctc_logits(const Model& model, const ModelInput& source);

/// Joint decoding: log-probabilities of tokens behind `tokens` become (1 - weight) of their own and `weight` of what
/// the scores say of them; `end` is the end of the labels, tokens that are no labels have none. A rescore of
/// beam_search().
void rescore_by_ctc(const CtcPrefixScores& scores, double weight, int32_t end, std::span<const int32_t> tokens,
                    std::span<double> log_probabilities);

}  // namespace lithe
