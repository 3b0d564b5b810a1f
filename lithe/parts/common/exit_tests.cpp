#include "lithe/parts/common/exit_tests.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace lithe {

// spec: exit.entropy | stack | rows leave where the entropy of the exit's prediction is below a threshold | TB 6.4.6
// spec: exit.maxprob | stack | rows leave where the largest probability, or its margin, reaches a threshold | TB 6.4.6
// spec: exit.similarity | stack | rows leave where rows or predictions of two layers are nearly the same | TB 6.4.6
// spec: exit.patience | stack | rows leave where the most likely class has not changed for some exits | TB 6.4.6
namespace {

using Criterion = ExitRule::Criterion;

// e^x for x <= 0 to 2e-7 of the value, in a form that compilers turn into vectors: the statistics of a prediction must
// cost little beside the product that made it.
inline float exp_of(float x) {
  x = std::max(x, -87.0f);
  constexpr float kRounds = 12582912;  // 1.5 * 2^23: what is added to it is rounded to a whole number
  const float whole = (x * 1.44269504f + kRounds) - kRounds;
  const float f = (x - whole * 0.693359375f) + whole * 2.12194440e-4f;
  const float p =
      1 + f * (1 + f * (0.5f + f * (0.16666667f + f * (0.041666645f + f * (0.0083334519f + f * 0.0013937f)))));
  return p * std::bit_cast<float>((int32_t(whole) + 127) << 23);
}

struct Sums {
  float most = 0;
  double total = 0, of_logits = 0;  // sum of e^(z - most), and of that times z - most
};

Sums sums_of(std::span<const float> z) {
  check(!z.empty(), "exit", "a prediction has no classes");
  Sums out{.most = *std::max_element(z.begin(), z.end())};
  constexpr size_t kBlock = 512;  // summed in f32 lanes, then in double
  float weights[kBlock], products[kBlock];
  for (size_t begin = 0; begin < z.size(); begin += kBlock) {
    const size_t n = std::min(kBlock, z.size() - begin);
    for (size_t i = 0; i < n; ++i) {
      const float below = z[begin + i] - out.most;
      weights[i] = exp_of(below);
      products[i] = below > -87.0f ? weights[i] * below : 0;
    }
    double a = 0, b = 0;
    for (size_t i = 0; i < n; ++i) a += double(weights[i]), b += double(products[i]);
    out.total += a, out.of_logits += b;
  }
  return out;
}

std::vector<double> probabilities(std::span<const float> z) {
  const Sums sums = sums_of(z);
  std::vector<double> p;
  for (float logit : z) p.push_back(std::exp(double(logit) - double(sums.most)) / sums.total);
  return p;
}

}  // namespace

double prediction_entropy(std::span<const float> logits) {
  const Sums s = sums_of(logits);
  return std::max(0.0, std::log(s.total) - s.of_logits / s.total);
}

TopTwo top_two(std::span<const float> logits) {
  const Sums s = sums_of(logits);
  TopTwo out;
  float second = -INFINITY;
  out.best = int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
  for (size_t i = 0; i < logits.size(); ++i)
    if (int32_t(i) != out.best) second = std::max(second, logits[i]);
  out.first = 1 / s.total;
  out.second = std::exp(double(second) - double(s.most)) / s.total;
  return out;
}

double js_divergence(std::span<const float> p_logits, std::span<const float> q_logits) {
  const std::vector<double> p = probabilities(p_logits), q = probabilities(q_logits);
  double sum = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    const double m = 0.5 * (p[i] + q[i]);
    if (p[i] > 0) sum += 0.5 * p[i] * std::log(p[i] / m);
    if (q[i] > 0) sum += 0.5 * q[i] * std::log(q[i] / m);
  }
  return std::max(0.0, sum);
}

double row_cosine(const Tensor& a, int64_t row_a, const Tensor& b, int64_t row_b) {
  const int64_t d = a.cols();
  double ab = 0, aa = 0, bb = 0;
  if (a.dtype() == DType::f32 && b.dtype() == DType::f32) {
    const float *x = a.data<float>() + row_a * d, *y = b.data<float>() + row_b * d;
    for (int64_t i = 0; i < d; ++i) ab += double(x[i]) * y[i], aa += double(x[i]) * x[i], bb += double(y[i]) * y[i];
  } else {
    for (int64_t i = 0; i < d; ++i) {
      const double x = value_at(a, row_a * d + i), y = value_at(b, row_b * d + i);
      ab += x * y, aa += x * x, bb += y * y;
    }
  }
  if (aa == 0 || bb == 0) return aa == bb ? 1 : 0;
  return ab / std::sqrt(aa * bb);
}

ExitTests::ExitTests(const ExitRule& rule, int64_t units) : rule_(rule) {
  if (rule.criterion == Criterion::divergence) before_.resize(size_t(units));
  if (rule.criterion == Criterion::patience) classes_.resize(size_t(units)), unchanged_.resize(size_t(units), 0);
}

bool ExitTests::leaves(int64_t unit, const std::vector<std::span<const float>>& logits) {
  const auto u = size_t(unit);
  const auto mean = [&](auto&& of) {
    double sum = 0;
    for (const auto& row : logits) sum += of(row);
    return sum / double(logits.size());
  };
  switch (rule_.criterion) {
    case Criterion::entropy: return mean(prediction_entropy) < rule_.threshold;
    case Criterion::maxprob:
      return mean([](std::span<const float> row) { return top_two(row).first; }) >= rule_.threshold;
    case Criterion::margin:
      return mean([](std::span<const float> row) {
               const TopTwo top = top_two(row);
               return top.first - top.second;
             }) >= rule_.threshold;
    case Criterion::divergence: {
      bool out = false;
      if (!before_[u].empty()) {
        size_t row = 0;
        out =
            mean([&](std::span<const float> now) { return js_divergence(now, before_[u][row++]); }) <= rule_.threshold;
      }
      before_[u].clear();
      for (const auto& row : logits) before_[u].emplace_back(row.begin(), row.end());
      return out;
    }
    case Criterion::patience: {
      std::vector<int32_t> classes;
      for (const auto& row : logits) classes.push_back(int32_t(std::max_element(row.begin(), row.end()) - row.begin()));
      unchanged_[u] = classes == classes_[u] ? unchanged_[u] + 1 : 0;
      classes_[u] = std::move(classes);
      return double(unchanged_[u]) >= rule_.threshold;
    }
    default: fail("exit", "rule ", text_of(rule_), " asks for no prediction");
  }
}

}  // namespace lithe
