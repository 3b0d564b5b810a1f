// What is beyond noise: paired differences over seeds and over the pieces of a text, with intervals and a correction
// for making many comparisons at once.
#pragma once

#include <cstdint>
#include <vector>

namespace lithe::compare {

double mean(const std::vector<double>& values);
/// Sample standard deviation (n - 1); 0 for fewer than two values.
double deviation(const std::vector<double>& values);
/// The p-quantile by linear interpolation between order statistics, 0 <= p <= 1.
double quantile(std::vector<double> values, double p);

/// P(T <= t) of Student's distribution with `df` > 0 degrees of freedom (need not be whole).
double student_cdf(double t, double df);
/// The t with P(|T| <= t) = `level`.
double student_two_sided(double level, double df);

/// An estimate with its standard error. df 0: nothing is known about the noise.
struct Estimate {
  double value = 0, error = 0, df = 0;
  /// Half length of the interval that holds the truth with probability `level`; infinite where df is 0.
  double half_width(double level = 0.95) const;
  /// Two-sided p-value against 0; 1 where df is 0 or value is 0.
  double p() const;
};

/// Mean of paired differences, its error over the pairs.
Estimate paired(const std::vector<double>& differences);

/// Both noises at once: variances add, degrees of freedom by Welch and Satterthwaite. What only one of them knows is
/// taken from that one.
Estimate combine(double value, const Estimate& a, const Estimate& b);

/// The noise left when scores[v][s] is explained by a variant and a seed (two-way analysis without interaction): the
/// deviation of one score, and its degrees of freedom (V-1)(S-1). df 0 for fewer than two variants or seeds.
struct Noise {
  double deviation = 0, df = 0;
};
Noise residual_noise(const std::vector<std::vector<double>>& scores);

/// Which rows (variants) of such scores are noisier than the others together by more than chance: Cochran's C test
/// (1941) at 1 %, repeated on those that are left as long as there are three.
std::vector<bool> noisier_than_the_rest(const std::vector<std::vector<double>>& scores);

/// Difference of two sums over the same pieces of a text, per unit: sum(a - b) / sum(weights), with the error that the
/// choice of text brings. Neighbouring pieces are joined to at most `blocks` blocks, because they are alike.
Estimate text_difference(const std::vector<double>& a, const std::vector<double>& b, const std::vector<double>& weights,
                         int64_t blocks = 64);

/// P-values made larger so that the chance of even one false alarm among them stays below the level (Holm 1979).
std::vector<double> holm(const std::vector<double>& p);

}  // namespace lithe::compare
