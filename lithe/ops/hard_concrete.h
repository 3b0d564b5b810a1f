// Gates between 0 and 1 that are learned, many of which end at 0 or 1 [Louizos et al. 2018].
#pragma once

#include <vector>

#include "lithe/autograd/var.h"

namespace lithe {

struct HardConcrete {
  double beta = 2.0 / 3, gamma = -0.1, zeta = 1.1;  // temperature, and the ends of the stretch
  /// The gate without noise: clamp(sigmoid(log_alpha) (zeta - gamma) + gamma).
  double at_test(double log_alpha) const;
  /// With noise u in (0, 1), before and after the clamp.
  double stretched(double log_alpha, double u) const;
  double sampled(double log_alpha, double u) const;
  /// Of a gate that is not 0.
  double probability(double log_alpha) const;
};

/// Gates of log_alpha [n], f32 or f64: with noise u [n], or without where there is none.
Var hard_concrete(const HardConcrete& form, const Var& log_alpha, const std::vector<double>& u);
/// scale * the sum of the probabilities that a gate is not 0: a scalar [1].
Var gate_penalty(const HardConcrete& form, const Var& log_alpha, double scale);

/// w times the gate of each element: units i32, of w's count, says which; -1: none.
Var gate_elements(const Var& w, const Var& gates, const Tensor& units);

}  // namespace lithe
