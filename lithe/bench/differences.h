// Which measurements differ beyond noise: models of one result from each other, and a result from an earlier one.
#pragma once

#include "lithe/bench/result.h"

namespace lithe::bench {

/// How fast something is relative to something else, above 1: faster; with an interval that holds the truth with a
/// probability of 95 % (infinite where the noise is not known).
struct Ratio {
  double value = 1, low = 0, high = 0;
};

enum class Verdict { same, faster, slower };
const char* name_of(Verdict verdict);

/// A variant against the first one in the same rounds.
struct VariantDifference {
  size_t at = 0, first = 0;  // of Result::measurements
  Ratio ratio;
  Verdict verdict = Verdict::same;
};
/// Every variant against the first that has the same measurement. Paired by rounds; p-values corrected for all of them
/// (Holm), and no difference smaller than that of the first variant from itself in the same rounds is called one.
std::vector<VariantDifference> variant_differences(const Result& result);

/// A measurement against the same of an earlier run.
struct Change {
  size_t now = 0, before = 0;  // of the results' measurements
  Ratio timed;                 // by the clock
  Ratio share;                 // by the share of the ceilings probed beside it: what is left when the machine changed
  double fastest = 1;          // of the fastest rounds
  Verdict verdict = Verdict::same;
};
struct Changes {
  std::vector<Change> all;
  int64_t only_now = 0, only_before = 0;  // measurements that the other run has not
  int64_t count(Verdict verdict) const;
};
/// Slower: by more than `tolerance` (0.05 is 5 %) by the clock and by the share, with the whole intervals, and in the
/// fastest round, so that neither a disturbed run nor a machine in another state is taken for a regression. The
/// intervals are widened for the number of measurements (Bonferroni). Faster: the same the other way.
Changes changes(const Result& now, const Result& before, double tolerance);

/// Why the two must not be compared; empty: they may be.
std::vector<std::string> obstacles(const Setting& now, const Setting& before);

}  // namespace lithe::bench
