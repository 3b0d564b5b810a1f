#include "lithe/parts/common/pattern_field.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tests/support/numbers.h"

namespace lithe {
namespace {

// A stable sort of all, cut.
std::vector<int64_t> sorted_ranks(const std::vector<double>& x, int64_t first, int64_t last) {
  std::vector<int64_t> order(x.size());
  std::iota(order.begin(), order.end(), int64_t(0));
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return x[size_t(a)] < x[size_t(b)]; });
  return {order.begin() + first, order.begin() + last};
}

void expect_ranks(const std::vector<double>& x, int64_t first, int64_t last) {
  auto got = at_ranks(x, first, last), want = sorted_ranks(x, first, last);
  std::sort(got.begin(), got.end());
  std::sort(want.begin(), want.end());
  EXPECT_EQ(got, want) << x.size() << " numbers, " << first << " to " << last;
}

TEST(AtRanks, AreThoseOfASort) {
  for (const double step : {0.0, 0.5}) {  // as drawn, and rounded so that many are equal
    std::vector<double> x = kit::values(kit::normal({700}, DType::f64, 1));
    for (double& number : x)
      if (step > 0) number = std::round(number / step) * step;
    for (const auto& [first, last] : std::vector<std::pair<int64_t, int64_t>>{
             {0, 1}, {0, 128}, {0, 700}, {64, 128}, {300, 301}, {448, 512}, {699, 700}})
      expect_ranks(x, first, last);
  }
}

TEST(AtRanks, TakeAnyRange) {
  expect_ranks({3}, 0, 1);
  expect_ranks(std::vector<double>(200, -1.5), 20, 84);
  std::vector<double> x = kit::values(kit::normal({100}, DType::f64, 2));
  x[7] = 1e300, x[8] = -1e300;  // all others in one bin
  expect_ranks(x, 0, 30);
  x[7] = std::numeric_limits<double>::max(), x[8] = -x[7];  // a range beyond all numbers
  expect_ranks(x, 50, 100);
  x[9] = std::numeric_limits<double>::infinity(), x[10] = -x[9];
  expect_ranks(x, 1, 99);
}

}  // namespace
}  // namespace lithe
