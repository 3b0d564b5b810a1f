#include "lithe/compare/search_grid.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "lithe/base/error.h"
#include "lithe/base/random.h"

namespace lithe::compare {
namespace {

class Search {
 public:
  Search(const std::vector<int64_t>& sizes, const GridSearch& how, const Evaluate& evaluate)
      : sizes_(sizes), how_(how), evaluate_(evaluate) {
    for (const int64_t size : sizes) points_ *= double(size);
  }

  std::vector<Evaluated> run() {
    if (how_.method == "exhaustive") {
      check_usage(points_ <= double(how_.evaluations), "search", "the grid has ", points_,
                  " points, more than candidates ", how_.evaluations, "; raise candidates, or choose another method");
      Point point(sizes_.size(), 0);
      do {
        if (!look_at(point, {})) break;
      } while (next(point));
      return std::move(done_);
    }
    const int64_t most = std::min(how_.evaluations, points_ < 1e15 ? int64_t(points_) : how_.evaluations),
                  first = how_.method == "random" ? most : std::min(most, how_.population);
    while (int64_t(done_.size()) < first)
      if (!look_at(fresh(), {})) return std::move(done_);
    while (int64_t(done_.size()) < most) {
      const std::optional<Point> parent = chosen();
      if (!parent || !look_at(changed(*parent), *parent)) break;
    }
    return std::move(done_);
  }

 private:
  const std::vector<int64_t>& sizes_;
  const GridSearch& how_;
  const Evaluate& evaluate_;
  double points_ = 1;
  uint64_t drawn_ = 0;
  std::vector<Evaluated> done_;
  std::set<Point> seen_;

  int64_t draw(int64_t below) {
    return int64_t(random_below({.seed = how_.seed, .purpose = purpose_of("search")}, drawn_++, uint64_t(below)));
  }

  bool next(Point& point) const {
    for (size_t i = point.size(); i-- > 0;) {
      if (++point[i] < sizes_[i]) return true;
      point[i] = 0;
    }
    return false;
  }

  bool look_at(const Point& point, const Point& parent) {
    const std::optional<double> objective = evaluate_(point);
    if (!objective) return false;
    seen_.insert(point);
    done_.push_back({point, *objective, parent});
    return true;
  }

  // A point not seen yet: drawn, and where that fails often, the next behind the last drawn.
  Point fresh() {
    Point point(sizes_.size());
    for (int attempt = 0; attempt < 100; ++attempt) {
      for (size_t i = 0; i < sizes_.size(); ++i) point[i] = draw(sizes_[i]);
      if (!seen_.count(point)) return point;
    }
    while (seen_.count(point)) next(point);
    return point;
  }

  // The best of a tournament among the youngest; none where one of them is not known yet.
  std::optional<Point> chosen() {
    const auto count = int64_t(done_.size()), young = std::min(count, how_.population);
    const Evaluated* best = nullptr;
    for (int64_t i = 0; i < how_.tournament; ++i) {
      const Evaluated& one = done_[size_t(count - 1 - draw(young))];
      if (std::isnan(one.objective)) return std::nullopt;
      if (!best || one.objective < best->objective) best = &one;
    }
    return best->point;
  }

  // One choice is another; more of them where all such neighbours are known.
  Point changed(const Point& parent) {
    std::vector<size_t> free;
    for (size_t i = 0; i < sizes_.size(); ++i)
      if (sizes_[i] > 1) free.push_back(i);
    for (int attempt = 0; attempt < 100; ++attempt) {
      Point point = parent;
      for (int change = 0; change <= attempt / 25; ++change) {
        const size_t at = free[size_t(draw(int64_t(free.size())))];
        point[at] = (point[at] + 1 + draw(sizes_[at] - 1)) % sizes_[at];
      }
      if (!seen_.count(point)) return point;
    }
    return fresh();
  }
};

}  // namespace

std::vector<Evaluated> search_grid(const std::vector<int64_t>& sizes, const GridSearch& how, const Evaluate& evaluate) {
  for (const int64_t size : sizes) check_usage(size >= 1, "search", "a choice has no values");
  check_usage(how.evaluations >= 1 && how.population >= 1 && how.tournament >= 1, "search",
              "candidates, population and tournament must be at least 1, got ", how.evaluations, ", ", how.population,
              " and ", how.tournament);
  return Search(sizes, how, evaluate).run();
}

const Evaluated* best_of(const std::vector<Evaluated>& all) {
  const Evaluated* best = nullptr;
  for (const Evaluated& one : all)
    if (std::isfinite(one.objective) && (!best || one.objective < best->objective)) best = &one;
  return best;
}

double objective_of(double loss, const std::vector<Budgeted>& budgets) {
  double sum = loss;
  for (const Budgeted& b : budgets)
    if (b.budget > 0 && b.lambda > 0) sum += b.lambda * std::max(0.0, b.amount / b.budget - 1);
  return sum;
}

}  // namespace lithe::compare
