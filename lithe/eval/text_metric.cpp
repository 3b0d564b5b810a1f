#include "lithe/eval/text_metric.h"

#include "lithe/base/error.h"
#include "lithe/base/machine.h"
#include "lithe/base/threads.h"

namespace lithe {

std::vector<TextCounts> segment_counts(const TextMetric& metric, std::span<const std::string> hypotheses,
                                       const TextReferences& references) {
  check(!hypotheses.empty(), metric.name(), "there are no hypotheses; give at least one");
  check(!references.empty(), metric.name(), "there are no references; give at least one for each hypothesis");
  for (const auto& list : references)
    check(list.size() == hypotheses.size(), metric.name(), "each hypothesis needs its reference, got ",
          hypotheses.size(), " hypotheses and ", list.size(), " references");
  std::vector<TextCounts> segments(hypotheses.size());
  parallel_for(int64_t(hypotheses.size()), 16, [&](int64_t begin, int64_t end, int) {
    std::vector<std::string> mine(references.size());
    for (auto i = size_t(begin); i < size_t(end); ++i) {
      for (size_t r = 0; r < mine.size(); ++r) mine[r] = references[r][i];
      segments[i] = metric.counts(hypotheses[i], mine);
    }
  });
  return segments;
}

TextCounts sum_counts(const std::vector<TextCounts>& segments) {
  check(!segments.empty(), "metric", "there are no segments to sum");
  return sum_drawn(segments, [](size_t i) { return i; });
}

std::string metric_signature(int64_t references, const std::string& options) {
  return cat("nrefs:", references, "|", options, "|version:lithe-", build_info().version);
}

}  // namespace lithe
