#include "lithe/compare/search_grid.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "tests/support/errors.h"

namespace lithe::compare {
namespace {

// A rough landscape with one smallest point.
double loss(const Point& p) {
  double sum = 3;
  for (size_t i = 0; i < p.size(); ++i)
    sum += std::pow(double(p[i]) - double(i + 1), 2) + 0.1 * std::sin(3.0 * double(p[i] + int64_t(i)));
  return sum;
}
double size(const Point& p) { return 1 + double(p[0] + 2 * p[1] + p[2]); }

std::vector<Evaluated> run(const std::string& method, int64_t evaluations, uint64_t seed, const Evaluate& evaluate,
                           const std::vector<int64_t>& sizes = {4, 4, 3}) {
  return search_grid(sizes, {.method = method, .evaluations = evaluations, .seed = seed}, evaluate);
}

// oracle: nas.search
TEST(SearchGrid, ExhaustiveFindsTheMinimum) {
  double least = INFINITY;
  for (int64_t a = 0; a < 4; ++a)
    for (int64_t b = 0; b < 4; ++b)
      for (int64_t c = 0; c < 3; ++c) least = std::min(least, loss({a, b, c}));
  const auto all = run("exhaustive", 50, 1, loss);
  EXPECT_EQ(all.size(), 48u);
  EXPECT_EQ(best_of(all)->objective, least);
  const std::string error = kit::coded_error_of([&] { run("exhaustive", 47, 1, loss); });
  EXPECT_TRUE(error.starts_with("2 ")) << error;
}

// oracle: nas.search
TEST(SearchGrid, IsAFunctionOfItsSeedAndLooksAtNoPointTwice) {
  for (const std::string method : {"random", "evolution"}) {
    std::set<Point> seen;
    const auto one = run(method, 30, 5, loss), two = run(method, 30, 5, loss), other = run(method, 30, 6, loss);
    ASSERT_EQ(one.size(), 30u);
    bool differs = false;
    for (size_t i = 0; i < one.size(); ++i) {
      EXPECT_EQ(one[i].point, two[i].point);
      differs = differs || one[i].point != other[i].point;
      EXPECT_TRUE(seen.insert(one[i].point).second);
    }
    EXPECT_TRUE(differs);
    EXPECT_EQ(run(method, 1000, 5, loss).size(), 48u);  // all there are
    // One that was stopped and is run again takes the same way.
    std::map<Point, double> known;
    int64_t left = 13;
    const Evaluate stopping = [&](const Point& p) -> std::optional<double> {
      if (known.count(p)) return known[p];
      if (left-- == 0) return std::nullopt;
      return known[p] = loss(p);
    };
    EXPECT_EQ(run(method, 30, 5, stopping).size(), 13u);
    left = 100;
    const auto resumed = run(method, 30, 5, stopping);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_EQ(one[i].point, resumed[i].point);
  }
}

// oracle: nas.search
TEST(SearchGrid, AHeavyPenaltyNeverTakesWhatDoesNotFitAndNoneIsTheLossAlone) {
  const auto with = [](double lambda) {
    return [=](const Point& p) -> std::optional<double> { return objective_of(loss(p), {{size(p), 4, lambda}}); };
  };
  for (const std::string method : {"exhaustive", "random", "evolution"}) {
    const auto heavy = run(method, 48, 2, with(1e12)), none = run(method, 48, 2, with(0)),
               plain = run(method, 48, 2, loss);
    EXPECT_LE(size(best_of(heavy)->point), 4) << method;
    EXPECT_EQ(best_of(none)->point, best_of(plain)->point) << method;
    EXPECT_GT(size(best_of(none)->point), 4) << method;
  }
  EXPECT_EQ(objective_of(2, {{3, 2, 1}, {1, 2, 1}, {9, 0, 1}}), 2.5);
}

TEST(SearchGrid, EvolutionChangesOneChoiceOfAParentAndBeatsChance) {
  double evolved = 0, random = 0;
  const std::vector<int64_t> sizes{8, 8, 8, 8};
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const auto all = run("evolution", 60, seed, loss, sizes);
    evolved += best_of(all)->objective;
    random += best_of(run("random", 60, seed, loss, sizes))->objective;
    for (size_t i = 6; i < 12; ++i) {
      ASSERT_EQ(all[i].parent.size(), 4u);
      int changes = 0;
      for (size_t c = 0; c < 4; ++c) changes += all[i].point[c] != all[i].parent[c];
      EXPECT_GE(changes, 1);
    }
  }
  EXPECT_LT(evolved, random);
}

TEST(SearchGrid, PointsThatCannotBeAreNeverTheBest) {
  const auto all =
      run("random", 48, 1, [](const Point& p) -> std::optional<double> { return p[0] == 1 ? loss(p) : INFINITY; });
  EXPECT_EQ(best_of(all)->point[0], 1);
  EXPECT_EQ(best_of(run("random", 9, 1, [](const Point&) -> std::optional<double> { return INFINITY; })), nullptr);
}

TEST(SearchGrid, GoesPastWhatIsNotKnownYetWithoutAnotherWay) {
  const auto whole = run("evolution", 40, 3, loss);
  std::set<Point> known;
  size_t rounds = 0;
  for (; known.size() < whole.size(); ++rounds) {
    std::set<Point> next = known;
    const auto part = run("evolution", 40, 3, [&](const Point& p) -> std::optional<double> {
      next.insert(p);
      return known.count(p) ? loss(p) : std::nan("");
    });
    for (size_t i = 0; i < part.size(); ++i) ASSERT_EQ(part[i].point, whole[i].point) << i;
    ASSERT_GT(next.size(), known.size());
    known = next;
  }
  EXPECT_LT(rounds, whole.size());
}

}  // namespace
}  // namespace lithe::compare
