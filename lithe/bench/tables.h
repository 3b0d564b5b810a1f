// A result as text for a terminal and as a page.
#pragma once

#include "lithe/bench/differences.h"

namespace lithe::bench {

/// Ceilings, kernels, models; what was skipped, and why.
std::string tables(const Result& result);
/// One line a measurement that both runs have, and what it comes to.
std::string tables(const Changes& changes, const Result& now, const Result& before, double tolerance);
/// What the changes come to, in a sentence.
std::string sentence(const Changes& changes, double tolerance);
/// The roofline page; `changes` and `before` may be null.
std::string page(const Result& result, const Changes* changes, const Result* before, double tolerance);

// Shared by both.

/// Says when other programs ran or the ceilings changed between rounds, so that figures mean little; else empty.
std::string unrest(const Result& result);
/// "213 GFLOP/s", "54.1 GB/s", "930 tokens/s"; of Ceiling::int8 operations.
std::string rate_text(double per_second, const std::string& unit);
/// Unit of a ceiling's rates: FLOP/s, OP/s or B/s.
std::string unit_of(Ceiling ceiling);
/// What a measurement reached, in the unit of what bounds it.
std::string achieved_text(const Measurement& m);
/// "1.23x (1.20 to 1.26)"; the interval is left out where nothing is known of it.
std::string ratio_text(const Ratio& ratio);
/// Half of the distance between the quartiles, of the median: "± 1.4 %".
std::string spread_text(const Spread& spread);

}  // namespace lithe::bench
