// Metrics of texts against references that are computed from sums over segments: BLEU and chrF.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lithe {

/// What a metric counts in a segment or in a sum of segments.
using TextCounts = std::vector<int64_t>;

/// references[r][i]: the r-th reference of segment i.
using TextReferences = std::vector<std::vector<std::string>>;

class TextMetric {
 public:
  virtual ~TextMetric() = default;

  /// "BLEU", "chrF2", "chrF2++".
  virtual std::string name() const = 0;
  /// What of its options changes the score, as sacreBLEU writes it, with lithe's version.
  virtual std::string signature(int64_t references) const = 0;
  /// Counts of one segment against at least one reference.
  virtual TextCounts counts(std::string_view hypothesis, std::span<const std::string> references) const = 0;
  /// From 0 to 100, of summed counts.
  virtual double score(const TextCounts& counts) const = 0;
};

/// The counts of each segment. Fails when there is no segment or no reference, and when a list of references has not
/// one for each hypothesis.
std::vector<TextCounts> segment_counts(const TextMetric& metric, std::span<const std::string> hypotheses,
                                       const TextReferences& references);
/// Their sum; there must be one.
TextCounts sum_counts(const std::vector<TextCounts>& segments);
/// The sum of segments drawn(0), ..., drawn(n - 1), as many as there are.
template <class F>
TextCounts sum_drawn(const std::vector<TextCounts>& segments, F&& drawn) {
  TextCounts sum(segments[0].size());
  for (size_t i = 0; i < segments.size(); ++i) {
    const TextCounts& one = segments[drawn(i)];
    for (size_t c = 0; c < sum.size(); ++c) sum[c] += one[c];
  }
  return sum;
}

/// "nrefs:1" and "version:lithe-0.1.0" around `options`, with | between.
std::string metric_signature(int64_t references, const std::string& options);

}  // namespace lithe
