// Early exits: rules by which rows leave a stack before its last layer, and what became of them [TB 6.4.6, Eq 6.194].
#pragma once

#include <string>
#include <vector>

#include "lithe/tensor/tensor.h"

namespace lithe {

/// When rows leave a stack that has exits (Stack::exits). Those that meet no exit whose test they pass run to the end.
struct ExitRule {
  enum class Criterion {
    layer,       // all rows leave after layer `threshold`, from 1
    entropy,     // entropy of the exit's prediction, in nats, below the threshold
    maxprob,     // its largest probability at least the threshold
    margin,      // its largest probability less the second largest at least the threshold
    similarity,  // cosine of the rows after this layer and the one below at least the threshold
    divergence,  // Jensen-Shannon divergence from the prediction of the exit below, in nats, at most the threshold
    patience,    // the most likely class the same at `threshold` exits in a row after the one that it was new at
    predictor,   // at the exit that the stack's depth predictor names
  };
  enum class Unit {
    automatic,  // tokens where rows see only those before them, else sentences
    token,      // each row by itself
    sentence    // all rows of a sequence together, by the mean of what they show
  };
  Criterion criterion = Criterion::layer;
  double threshold = 0;
  Unit unit = Unit::automatic;
  bool operator==(const ExitRule&) const = default;
};

/// "entropy", "entropy:0.5", "entropy:0.5:sentence"; without a number the criterion's usual one (entropy 0.5 nats,
/// maxprob 0.9, margin 0.8, similarity 0.99, divergence 1e-3, patience 3). Fails (usage) on anything else.
ExitRule exit_rule_named(const std::string& text);
/// And back.
std::string text_of(const ExitRule& rule);
/// The names of the criteria.
std::vector<std::string> exit_criteria();

/// A rule at work: what became of the rows of the passes that obey it (Pass::set_exits).
class ExitRun {
 public:
  explicit ExitRun(const ExitRule& rule) : rule(rule) {}
  ExitRule rule;
  // Of the last pass, row by row: the exit that it left by (-1: none), and its prediction where that is known already,
  // [1, classes] as the head made it.
  std::vector<int32_t> exit_of_row;
  std::vector<Tensor> logits_of_row;
  /// Of all passes: how many tokens (or sentences) ran so many layers.
  std::vector<int64_t> ran;

  /// For stacks: another pass begins, of so many rows and layers.
  void begin(int64_t rows, int64_t layers);
  double mean_layers() const;
  int64_t counted() const;
};

}  // namespace lithe
