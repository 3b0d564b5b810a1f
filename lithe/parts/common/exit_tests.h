// What rules of early exits look at: statistics of predictions, and tests of units that go on [TB 6.4.6, Eq 6.194].
#pragma once

#include <span>

#include "lithe/nn/exits.h"

namespace lithe {

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
