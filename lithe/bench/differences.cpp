#include "lithe/bench/differences.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "lithe/bench/timing.h"

namespace lithe::bench {
namespace {

using compare::Estimate;

constexpr double kConfidence = 0.95;

Ratio ratio_of(const Estimate& logarithm, double confidence) {
  const double half = logarithm.half_width(confidence);
  return {std::exp(logarithm.value), std::exp(logarithm.value - half), std::exp(logarithm.value + half)};
}

// The mean of logarithms with its error.
Estimate of_logarithms(std::vector<double> values) {
  for (double& v : values) v = std::log(v);
  return compare::paired(values);
}

// now / before, both with their noise.
Ratio quotient(const std::vector<double>& now, const std::vector<double>& before, double confidence) {
  const Estimate a = of_logarithms(now), b = of_logarithms(before);
  const double value = a.value - b.value;
  // What was measured once says nothing about noise, whatever the other run knows.
  return ratio_of(a.df > 0 && b.df > 0 ? compare::combine(value, a, b) : Estimate{value, 0, 0}, confidence);
}

std::vector<double> speeds(const Measurement& m) {
  std::vector<double> out;
  for (const Sample& s : m.samples) out.push_back(1 / s.seconds);
  return out;
}

double highest(const std::vector<double>& values) { return *std::max_element(values.begin(), values.end()); }

// Logarithms of a's speed over b's, round by round.
std::vector<double> log_ratios(const std::vector<Sample>& a, const std::vector<Sample>& b) {
  std::vector<double> out;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) out.push_back(std::log(b[i].seconds / a[i].seconds));
  return out;
}

}  // namespace

const char* name_of(Verdict verdict) {
  return verdict == Verdict::same ? "within noise" : verdict == Verdict::faster ? "faster" : "slower";
}

std::vector<VariantDifference> variant_differences(const Result& result) {
  std::vector<VariantDifference> out;
  std::vector<double> p, floors;
  std::map<std::pair<std::string, std::string>, size_t> firsts;
  for (size_t i = 0; i < result.measurements.size(); ++i) {
    const Measurement& m = result.measurements[i];
    if (m.variant.empty()) continue;
    const auto [first, is_new] = firsts.try_emplace({m.group, m.name}, i);
    if (is_new) continue;
    const Measurement& base = result.measurements[first->second];
    const Estimate e = compare::paired(log_ratios(m.samples, base.samples));
    out.push_back({i, first->second, ratio_of(e, kConfidence)});
    p.push_back(e.p());
    const std::vector<double> itself = log_ratios(base.control, base.samples);
    floors.push_back(itself.empty() ? 0 : std::abs(median(itself)));
  }
  p = compare::holm(p);
  for (size_t i = 0; i < out.size(); ++i) {
    const double size = std::log(out[i].ratio.value);
    if (p[i] < 1 - kConfidence && std::abs(size) > floors[i])
      out[i].verdict = size > 0 ? Verdict::faster : Verdict::slower;
  }
  return out;
}

int64_t Changes::count(Verdict verdict) const {
  return std::count_if(all.begin(), all.end(), [&](const Change& c) { return c.verdict == verdict; });
}

Changes changes(const Result& now, const Result& before, double tolerance) {
  using Key = std::tuple<std::string, std::string, std::string>;
  const auto key = [](const Measurement& m) { return Key{m.group, m.name, m.variant}; };
  std::map<Key, size_t> earlier;
  for (size_t i = 0; i < before.measurements.size(); ++i) earlier.emplace(key(before.measurements[i]), i);
  Changes out;
  for (size_t i = 0; i < now.measurements.size(); ++i) {
    const auto found = earlier.find(key(now.measurements[i]));
    if (found == earlier.end())
      ++out.only_now;
    else
      out.all.push_back({.now = i, .before = found->second});
  }
  out.only_before = int64_t(earlier.size()) - int64_t(out.all.size());
  const double confidence = 1 - (1 - kConfidence) / double(std::max<size_t>(1, out.all.size()));
  for (Change& c : out.all) {
    const Measurement &a = now.measurements[c.now], &b = before.measurements[c.before];
    c.timed = quotient(speeds(a), speeds(b), confidence);
    c.share = quotient(a.shares(), b.shares(), confidence);
    c.fastest = highest(speeds(a)) / highest(speeds(b));
    const double least = 1 / (1 + tolerance), most = 1 + tolerance;
    if (c.timed.high < least && c.share.high < least && c.fastest < least) c.verdict = Verdict::slower;
    if (c.timed.low > most && c.share.low > most && c.fastest > most) c.verdict = Verdict::faster;
  }
  return out;
}

std::vector<std::string> obstacles(const Setting& now, const Setting& before) {
  std::vector<std::string> out;
  const auto compare_texts = [&](const char* what, const auto& a, const auto& b) {
    if (a != b) out.push_back(cat(what, " was '", b, "', is '", a, "'"));
  };
  compare_texts("the processor", now.cpu, before.cpu);
  compare_texts("the number of logical processors", now.logical_cpus, before.logical_cpus);
  compare_texts("the number of threads", now.threads, before.threads);
  compare_texts("the instruction set", now.instruction_set, before.instruction_set);
  compare_texts("the precision", now.precision, before.precision);
  compare_texts("the build", now.build_type, before.build_type);
  return out;
}

}  // namespace lithe::bench
