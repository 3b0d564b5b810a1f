#include "lithe/eval/paired_bootstrap.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lithe/base/error.h"
#include "lithe/base/random.h"
#include "lithe/base/threads.h"

namespace lithe {
namespace {

std::vector<double> resampled(const TextMetric& metric, const std::vector<TextCounts>& segments, int64_t samples,
                              uint64_t seed) {
  check_usage(samples >= 1, "bootstrap", "there must be at least one resample, got ", samples);
  check(!segments.empty(), "bootstrap", "there are no segments to draw from");
  std::vector<double> scores(static_cast<size_t>(samples));
  parallel_for(samples, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t s = begin; s < end; ++s) {
      const RandomKey key{seed, uint64_t(s), 0, purpose_of("bootstrap")};
      scores[size_t(s)] =
          metric.score(sum_drawn(segments, [&](size_t i) { return random_below(key, i, segments.size()); }));
    }
  });
  return scores;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

ResampledScore summary(double score, std::vector<double> scores) {
  std::sort(scores.begin(), scores.end());
  const size_t tail = scores.size() / 40;  // 2.5 % on each side
  return {.score = score, .mean = mean(scores), .low = scores[tail], .high = scores[scores.size() - tail - 1]};
}

}  // namespace

ResampledScore bootstrap(const TextMetric& metric, const std::vector<TextCounts>& system, int64_t samples,
                         uint64_t seed) {
  return summary(metric.score(sum_counts(system)), resampled(metric, system, samples, seed));
}

PairedBootstrap paired_bootstrap(const TextMetric& metric, const std::vector<TextCounts>& baseline,
                                 const std::vector<TextCounts>& system, int64_t samples, uint64_t seed) {
  check(baseline.size() == system.size(), "bootstrap", "both systems must have the same segments, got ",
        baseline.size(), " of the baseline and ", system.size(), " of the system");
  const auto a = resampled(metric, baseline, samples, seed), b = resampled(metric, system, samples, seed);
  PairedBootstrap out;
  out.baseline = summary(metric.score(sum_counts(baseline)), a);
  out.system = summary(metric.score(sum_counts(system)), b);
  const double difference = std::abs(out.system.score - out.baseline.score);
  std::vector<double> differences(a.size());
  for (size_t s = 0; s < a.size(); ++s) differences[s] = std::abs(b[s] - a[s]);
  const double centre = mean(differences);
  const auto beyond =
      std::count_if(differences.begin(), differences.end(), [&](double d) { return d - centre > difference; });
  out.p = double(beyond + 1) / double(samples + 1);
  return out;
}

}  // namespace lithe
