#include "lithe/analyze/indicators.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "lithe/base/error.h"

namespace lithe::analyze {
namespace {

double mean_over_heads(const AttentionMaps& maps, const std::function<double(int64_t head)>& f) {
  double sum = 0;
  for (int64_t h = 0; h < maps.heads; ++h) sum += f(h);
  return sum / double(maps.heads);
}

double sum_over(std::span<const float> values, double (*f)(double)) {
  double sum = 0;
  for (const float v : values) sum += f(v);
  return sum;
}

std::span<const float> map_of(const AttentionMaps& maps, int64_t head) {
  const size_t size = size_t(maps.length * maps.length);
  return maps.weights.subspan(size_t(head) * size, size);
}

}  // namespace

// spec: ind.entropy | indicator | entropy of attention maps, from 0 to 1 | TH 4.4.4
double entropy(const AttentionMaps& maps) {
  return mean_over_heads(maps, [&](int64_t h) {
    return sum_over(map_of(maps, h), [](double a) { return a > 0 ? -a * std::log(a) : 0; });
  });
}

double entropy_limit(int64_t length, bool causal) {
  return causal ? std::lgamma(double(length) + 1) : double(length) * std::log(double(length));
}

// spec: ind.concentration | indicator | Frobenius norm of attention maps, from 0 to 1 | TH 4.4.4
double concentration(const AttentionMaps& maps) {
  return mean_over_heads(
      maps, [&](int64_t h) { return std::sqrt(sum_over(map_of(maps, h), [](double a) { return a * a; })); });
}

Range concentration_range(int64_t length, bool causal) {
  if (!causal) return {1, std::sqrt(double(length))};
  double harmonic = 0;
  for (int64_t i = 1; i <= length; ++i) harmonic += 1 / double(i);
  return {std::sqrt(harmonic), std::sqrt(double(length))};
}

// spec: ind.headdiv | indicator | how much the heads of a layer differ | TH 4.4.4
double head_diversity(const AttentionMaps& maps, int ddof) {
  if (maps.heads <= 1) return 0;
  double sum = 0;
  for (int64_t i = 0; i < maps.length; ++i)
    for (int64_t j = 0; j < (maps.causal ? i + 1 : maps.length); ++j) {
      const double mean = mean_over_heads(maps, [&](int64_t h) { return maps.at(h, i, j); });
      const double squares = mean_over_heads(maps, [&](int64_t h) {
        const double d = maps.at(h, i, j) - mean;
        return d * d;
      });
      sum += std::sqrt(squares * double(maps.heads) / double(maps.heads - ddof));
    }
  const double L = double(maps.length);
  return sum / (maps.causal ? L * (L + 1) / 2 : L * L);
}

// spec: ind.sink | indicator | share of attention on the first token | TH 4.4.4
double sink(const AttentionMaps& maps) {
  return mean_over_heads(maps, [&](int64_t h) {
    double sum = 0;
    for (int64_t i = 0; i < maps.length; ++i) sum += maps.at(h, i, 0);
    return sum / double(maps.length);
  });
}

// spec: ind.locfoc | indicator | share of attention on the token 0, 1, 2 or 3 back | TH 4.4.4
double local_focus(const AttentionMaps& maps, int64_t back) {
  if (back >= maps.length) return std::numeric_limits<double>::quiet_NaN();
  return mean_over_heads(maps, [&](int64_t h) {
    double sum = 0;
    for (int64_t i = back; i < maps.length; ++i) sum += maps.at(h, i, i - back);
    return sum / double(maps.length - back);
  });
}

const std::array<const char*, kIndicators>& indicator_names() {
  static const std::array<const char*, kIndicators> names = {"Entropy",       "Concentration", "Head diversity",
                                                             "Sink",          "Local focus 0", "Local focus 1",
                                                             "Local focus 2", "Local focus 3"};
  return names;
}

const std::array<const char*, kIndicators>& indicator_keys() {
  static const std::array<const char*, kIndicators> keys = {"entropy",       "concentration", "head_diversity",
                                                            "sink",          "local_focus_0", "local_focus_1",
                                                            "local_focus_2", "local_focus_3"};
  return keys;
}

Indicators indicators(const AttentionMaps& maps, int ddof) {
  check(maps.heads > 0 && maps.length > 0 && int64_t(maps.weights.size()) == maps.heads * maps.length * maps.length,
        "indicators", "weights must be [heads ", maps.heads, ", L ", maps.length, ", L], got ", maps.weights.size(),
        " values");
  Indicators out;
  out.raw = {entropy(maps), concentration(maps), head_diversity(maps, ddof), sink(maps), 0, 0, 0, 0};
  for (int64_t back = 0; back < 4; ++back) out.raw[size_t(4 + back)] = local_focus(maps, back);
  out.normalised = out.raw;
  out.normalised[0] = Range{0, entropy_limit(maps.length, maps.causal)}.of(out.raw[0]);
  out.normalised[1] = concentration_range(maps.length, maps.causal).of(out.raw[1]);
  return out;
}

void normalise_empirically(std::vector<Indicators*> layers) {
  for (const size_t which : {size_t(0), size_t(1)}) {
    Range range{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
    for (const Indicators* layer : layers) {
      range.low = std::min(range.low, layer->raw[which]);
      range.high = std::max(range.high, layer->raw[which]);
    }
    for (Indicators* layer : layers) layer->normalised[which] = range.of(layer->raw[which]);
  }
}

}  // namespace lithe::analyze
