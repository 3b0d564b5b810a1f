#include "lithe/text/segmentation.h"

#include <cmath>
#include <limits>

#include "lithe/base/error.h"
#include "lithe/base/fields.h"

namespace lithe {

constexpr int64_t most_candidates = 1000;

void SegmentationSampling::fields(Fields& f) {
  f("dropout", dropout, "BPE: probability to skip a merge in training (BPE-dropout, usually 0.1)", between(0, 1));
  f("alpha", alpha,
    "unigram: in training, draw a segmentation with a probability in proportion to P^alpha (usually 0.2); null: off",
    at_least(0));
  f("length_penalty", length_penalty, "unigram: penalty per token, subtracted from its log-probability", at_least(0));
  f("candidates", candidates, "unigram: draw only among this many best segmentations; 0: among all",
    between(0, double(most_candidates)));
}

void SegmentationSampling::validate() const {
  check_usage(dropout >= 0 && dropout <= 1, "tokenizer", "dropout must be in [0, 1], got ", dropout);
  check_usage(!alpha || (*alpha >= 0 && std::isfinite(*alpha)), "tokenizer",
              "alpha must be finite and at least 0, got ", alpha.value_or(0),
              ": leave it out for the best segmentation");
  check_usage(length_penalty >= 0 && std::isfinite(length_penalty), "tokenizer",
              "length_penalty must be finite and at least 0, got ", length_penalty);
  check_usage(candidates >= 0 && candidates <= most_candidates, "tokenizer", "candidates must be 0 to ",
              most_candidates, ", got ", candidates);
  check_usage(candidates == 0 || alpha, "tokenizer", "candidates ", candidates,
              " are given without alpha: the best one would always be taken");
}

}  // namespace lithe
