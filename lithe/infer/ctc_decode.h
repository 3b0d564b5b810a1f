// What rows of connectionist temporal classification say: labels, when they stand, and which are likeliest together
// with a model of label sequences (spec app.ctc).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "lithe/tensor/tensor.h"

namespace lithe {

/// A label on rows [begin, end) of its sequence, from 0.
struct PlacedLabel {
  int32_t label = 0;
  int64_t begin = 0, end = 0;
  double log_probability = 0;  // the mean over its rows
};

/// log P of each class of row `row` of logits [N, C] into `out`, C numbers. Fails on logits that are not finite.
void log_probabilities_of_row(const Tensor& logits, int64_t row, std::span<double> out);

/// Rows [begin, end) of logits [N, C], the blank last. Each row's likeliest class, repetitions once, without blanks.
std::vector<PlacedLabel> ctc_greedy(const Tensor& logits, int64_t begin, int64_t end);

/// Where given labels stand on their likeliest alignment. Fails where there are too few rows for them.
std::vector<PlacedLabel> ctc_alignment(const Tensor& logits, int64_t begin, int64_t end,
                                       const std::vector<int32_t>& labels);

/// Probabilities of labels after the labels before them, by counts of n neighbours, each order mixed with the one below
/// by the number of different labels that followed [Witten and Bell 1991]; below the lowest all are alike.
class LabelNgrams {
 public:
  /// Of sequences of labels in [0, labels). Fails (usage) on an order outside of 1 to 8.
  LabelNgrams(const std::vector<std::vector<int32_t>>& sequences, int64_t order, int64_t labels);
  /// log P(next | before); next = end() is the end of a sequence. Over all labels and the end these sum to 1.
  double log_probability(const std::vector<int32_t>& before, int32_t next) const;
  int32_t end() const { return int32_t(labels_); }

 private:
  struct Followers {
    int64_t count = 0;
    std::map<int32_t, int64_t> of;
  };
  int64_t order_, labels_;
  std::map<std::vector<int32_t>, Followers> contexts_;
};

struct CtcSearch {
  int64_t num_beams = 1;                       // prefixes that are kept at each row
  const LabelNgrams* ngrams = nullptr;         // beside the rows; null: none
  double ngram_weight = 0.5, label_bonus = 0;  // added: weight log P(labels) + bonus for each label
};

struct CtcHypothesis {
  std::vector<int32_t> labels;
  double log_probability = 0;  // of the rows' alignments that were followed
  double score = 0;            // with n-grams and bonus
};

/// Prefix beam search: the best first, at most num_beams. Alignments of one prefix are summed before prefixes are left
/// out; with enough beams log_probability is minus the loss of the labels.
std::vector<CtcHypothesis> ctc_beam_search(const Tensor& logits, int64_t begin, int64_t end, const CtcSearch& search);

}  // namespace lithe
