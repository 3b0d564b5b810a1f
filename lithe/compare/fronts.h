// Quality against each cost: which variants are worth taking where a cost is short.
#pragma once

#include <string>
#include <vector>

#include "lithe/compare/result.h"
#include "lithe/report/format.h"

namespace lithe::compare {

struct Front {
  std::string cost;  // "bytes of the decode state at 1,040 tokens"
  report::Quantity quantity = report::Quantity::number;
  std::vector<double> costs;    // by variant; NaN where the cost is unknown
  std::vector<size_t> members;  // variants that no other beats in cost and mean score, the cheapest first
};

/// One for each cost that differs between variants: parameters, decode state, memory and time of training, time of a
/// decoded token and of a prompt. Means decide, noise or not.
std::vector<Front> fronts_of(const Comparison& comparison);

/// More than a dozen variants: pages show the lines of some, and findings are of pairs with the baseline.
inline bool is_crowded(const Comparison& comparison) { return comparison.variants.size() > 12; }

/// Variants that charts of lines show: all, or in a crowd the baseline and those on a front.
std::vector<size_t> shown_in_lines(const Comparison& comparison);

}  // namespace lithe::compare
