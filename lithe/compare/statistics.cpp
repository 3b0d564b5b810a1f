#include "lithe/compare/statistics.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <boost/math/special_functions/beta.hpp>
#include <cmath>
#include <limits>
#include <numeric>

#include "lithe/base/error.h"

namespace lithe::compare {

double mean(const std::vector<double>& values) {
  return values.empty() ? std::numeric_limits<double>::quiet_NaN()
                        : std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

double deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double m = mean(values);
  double squares = 0;
  for (double v : values) squares += (v - m) * (v - m);
  return std::sqrt(squares / double(values.size() - 1));
}

double quantile(std::vector<double> values, double p) {
  check(!values.empty() && p >= 0 && p <= 1, "quantile", "needs values and 0 <= p <= 1, got ", values.size(),
        " values and p ", p);
  std::sort(values.begin(), values.end());
  const double at = p * double(values.size() - 1);
  const size_t low = size_t(at), high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - double(low)) * (values[high] - values[low]);
}

namespace {

// In f64 throughout; what is too large for it is infinite.
using Math = boost::math::policies::policy<boost::math::policies::promote_double<false>,
                                           boost::math::policies::overflow_error<boost::math::policies::ignore_error>>;

// P(|T| > t), without loss of digits far out.
double two_sided_tail(double t, double df) { return boost::math::ibeta(df / 2, 0.5, df / (df + t * t), Math()); }

// P(F > f) of Fisher's distribution.
double fisher_tail(double f, double df1, double df2) {
  return boost::math::ibeta(df2 / 2, df1 / 2, df2 / (df2 + df1 * f), Math());
}

// What a variant and a seed leave unexplained: [variants][seeds].
std::vector<std::vector<double>> residuals_of(const std::vector<std::vector<double>>& scores) {
  const size_t variants = scores.size(), seeds = scores[0].size();
  std::vector<double> of_seed(seeds, 0), of_variant;
  for (const auto& row : scores) {
    check(row.size() == seeds, "noise", "every variant needs ", seeds, " seeds, one has ", row.size());
    of_variant.push_back(mean(row));
    for (size_t s = 0; s < seeds; ++s) of_seed[s] += row[s] / double(variants);
  }
  const double all = mean(of_seed);
  std::vector<std::vector<double>> out = scores;
  for (size_t v = 0; v < variants; ++v)
    for (size_t s = 0; s < seeds; ++s) out[v][s] -= of_variant[v] + of_seed[s] - all;
  return out;
}

}  // namespace

double student_cdf(double t, double df) {
  check(df > 0, "student_cdf", "degrees of freedom must be above 0, got ", df);
  const double tail = two_sided_tail(t, df) / 2;
  return t > 0 ? 1 - tail : tail;
}

double student_two_sided(double level, double df) {
  check(level > 0 && level < 1 && df > 0, "student_two_sided", "needs 0 < level < 1 and df > 0, got ", level, " and ",
        df);
  const boost::math::students_t_distribution<double, Math> student(df);
  return boost::math::quantile(boost::math::complement(student, (1 - level) / 2));
}

double Estimate::half_width(double level) const {
  if (df <= 0) return std::numeric_limits<double>::infinity();
  return error > 0 ? student_two_sided(level, df) * error : 0;
}

double Estimate::p() const {
  if (df <= 0 || value == 0 || !std::isfinite(value)) return 1;
  return error > 0 ? two_sided_tail(value / error, df) : 0;
}

Estimate paired(const std::vector<double>& differences) {
  const double n = double(differences.size());
  if (differences.empty()) return {};
  return {mean(differences), deviation(differences) / std::sqrt(n), n - 1};
}

Estimate combine(double value, const Estimate& a, const Estimate& b) {
  if (a.df <= 0) return {value, b.error, b.df};
  if (b.df <= 0) return {value, a.error, a.df};
  const double va = a.error * a.error, vb = b.error * b.error, sum = va + vb;
  if (sum <= 0) return {value, 0, a.df + b.df};
  return {value, std::sqrt(sum), sum * sum / (va * va / a.df + vb * vb / b.df)};
}

Noise residual_noise(const std::vector<std::vector<double>>& scores) {
  const size_t variants = scores.size(), seeds = scores.empty() ? 0 : scores[0].size();
  if (variants < 2 || seeds < 2) return {};
  double squares = 0;
  for (const auto& row : residuals_of(scores))
    for (const double residual : row) squares += residual * residual;
  const double df = double((variants - 1) * (seeds - 1));
  return {std::sqrt(squares / df), df};
}

std::vector<bool> noisier_than_the_rest(const std::vector<std::vector<double>>& scores) {
  constexpr double kLevel = 0.01;
  std::vector<bool> noisier(scores.size());
  if (scores.empty() || scores[0].size() < 2) return noisier;
  for (;;) {
    std::vector<std::vector<double>> left;
    std::vector<size_t> at;
    for (size_t v = 0; v < scores.size(); ++v)
      if (!noisier[v]) left.push_back(scores[v]), at.push_back(v);
    if (left.size() < 3) return noisier;
    std::vector<double> squares;
    for (const auto& row : residuals_of(left))
      squares.push_back(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
    const size_t most = size_t(std::max_element(squares.begin(), squares.end()) - squares.begin());
    const double rest = std::accumulate(squares.begin(), squares.end(), -squares[most]), n = double(left.size()),
                 df = double(scores[0].size() - 1);
    if (squares[most] <= 0 || (rest > 0 && n * fisher_tail(squares[most] / rest * (n - 1), df, (n - 1) * df) >= kLevel))
      return noisier;
    noisier[at[most]] = true;
  }
}

Estimate text_difference(const std::vector<double>& a, const std::vector<double>& b, const std::vector<double>& weights,
                         int64_t blocks) {
  check(a.size() == b.size() && a.size() == weights.size(), "text_difference", "needs equal pieces, got ", a.size(),
        ", ", b.size(), " and ", weights.size());
  const int64_t n = int64_t(a.size()), k = std::min(n, blocks);
  std::vector<double> difference(size_t(k), 0), weight(size_t(k), 0);
  for (int64_t i = 0; i < n; ++i) {
    const size_t at = size_t(i * k / n), from = size_t(i);
    difference[at] += a[from] - b[from];
    weight[at] += weights[from];
  }
  const double total = std::accumulate(weight.begin(), weight.end(), 0.0);
  if (total <= 0) return {};
  const double value = std::accumulate(difference.begin(), difference.end(), 0.0) / total;
  if (k < 2) return {value, 0, 0};
  double squares = 0;
  for (size_t i = 0; i < size_t(k); ++i) {
    const double residual = difference[i] - value * weight[i];
    squares += residual * residual;
  }
  return {value, std::sqrt(squares * double(k) / double(k - 1)) / total, double(k - 1)};
}

std::vector<double> holm(const std::vector<double>& p) {
  std::vector<size_t> order(p.size());
  std::iota(order.begin(), order.end(), size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) { return p[i] < p[j]; });
  std::vector<double> out(p.size());
  double highest = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    highest = std::max(highest, std::min(1.0, p[order[i]] * double(order.size() - i)));
    out[order[i]] = highest;
  }
  return out;
}

}  // namespace lithe::compare
