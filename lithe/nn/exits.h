// Early exits: rules by which rows leave a stack before its last layer, and what became of them [TB 6.4.6, Eq 6.194].
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lithe/nn/slots.h"

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

/// A rule at work: what became of the rows of the passes that run while it is current().
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

  /// The rule that passes of this thread obey now; null: all rows run to the end.
  static ExitRun* current();
};

/// Makes a rule current while it lives; null: none is.
class ExitScope {
 public:
  explicit ExitScope(ExitRun* run);
  ~ExitScope();
  ExitScope(const ExitScope&) = delete;
  ExitScope& operator=(const ExitScope&) = delete;

 private:
  ExitRun* previous_;
};

/// A place in a stack where rows may leave it.
struct StackExit {
  int64_t layer = 0;      // from 0: after this one
  double weight = 1;      // of its loss, beside the model's own, which counts 1
  bool own_head = false;  // else the model's head predicts there, too
};

/// A stack that lets rows pass a layer unchanged while others of their sequence run it. It needs layers with one mixer,
/// without a compressor, and residuals of one stage, so that a layer's state is the same whether or not a row ran it.
class SelectiveStack : public Stack {
 public:
  /// Where rows may leave, the lowest first; each is trained by a loss of its own.
  virtual std::vector<StackExit> exits() const { return {}; }
};

/// What a stack with exits may ask of the model that it stands in: Layers that are these, too.
class ExitHeads {
 public:
  virtual ~ExitHeads() = default;
  /// What the head of exit `exit` (from 0; -1: the model's) predicts of rows as they leave the layer: Head::logits.
  virtual Var predict(int64_t exit, const Rows& x) const = 0;
  /// A row sees only the tokens up to its own.
  virtual bool causal() const = 0;
};

// ---- statistics of one prediction, given as logits

/// Entropy in nats.
double prediction_entropy(std::span<const float> logits);
/// The largest probability, and the second largest (0 of one class).
struct TopTwo {
  int32_t best = 0;
  double first = 0, second = 0;
};
TopTwo top_two(std::span<const float> logits);
/// Jensen-Shannon divergence of two predictions, in nats.
double js_divergence(std::span<const float> p_logits, std::span<const float> q_logits);
/// The cosine of two rows, any floating type; 1 of two rows of zeros, 0 of one.
double row_cosine(const Tensor& a, int64_t row_a, const Tensor& b, int64_t row_b);

/// What tests at exits remember of the units (tokens or sentences) that go on: their numbers are those of the pass.
class ExitTests {
 public:
  ExitTests(const ExitRule& rule, int64_t units);
  /// Whether a unit leaves at an exit that predicts its rows so: logits f32, one row a token of the unit, or one.
  /// To be asked exit by exit, from the lowest.
  bool leaves(int64_t unit, const std::vector<std::span<const float>>& logits);
  /// The same of what needs no prediction: the mean cosine of the unit's rows.
  bool leaves_by_cosine(double mean) const { return mean >= rule_.threshold; }

 private:
  ExitRule rule_;
  std::vector<std::vector<std::vector<float>>> before_;  // divergence: the logits of each unit at the exit below
  std::vector<std::vector<int32_t>> classes_;            // patience: what each row was predicted to be
  std::vector<int64_t> unchanged_;
};

}  // namespace lithe
