// Search over a grid of choices: which points are looked at, in which order (spec nas.search).
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace lithe::compare {

/// The number of the value that each choice has, from 0.
using Point = std::vector<int64_t>;

struct GridSearch {
  std::string method = "evolution";  // random, evolution, exhaustive
  int64_t evaluations = 16;          // points that are looked at, at most
  int64_t population = 6, tournament = 3;
  uint64_t seed = 1;
};

/// A point and its objective; infinite: it cannot be.
struct Evaluated {
  Point point;
  double objective = std::numeric_limits<double>::infinity();
  Point parent = {};  // evolution: what it was changed from; empty: drawn at random
};

/// What a point is worth, smaller is better; none: stop here; NaN: not known yet.
using Evaluate = std::function<std::optional<double>(const Point&)>;

/// Looks at points of a grid with sizes[i] values of choice i, each at most once, and returns them in their order. A
/// pure function of its arguments, so that a search that was stopped goes on when it is run again. Evolution: random
/// points first; then the best of `tournament` members of the last `population` is changed in one choice [Real et al.
/// 2019]. It goes past points that are not known yet as far as none of them decides what comes next. Fails (usage)
/// where exhaustive has more points than evaluations.
std::vector<Evaluated> search_grid(const std::vector<int64_t>& sizes, const GridSearch& how, const Evaluate& evaluate);

/// The first of the smallest objective; none where none is finite.
const Evaluated* best_of(const std::vector<Evaluated>& all);

/// loss + sum of lambda max(0, amount / budget - 1) over the budgets that are given (above 0).
struct Budgeted {
  double amount = 0, budget = 0, lambda = 1;
};
double objective_of(double loss, const std::vector<Budgeted>& budgets);

}  // namespace lithe::compare
