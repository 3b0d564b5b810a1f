#include "lithe/base/threads.h"

#include <gtest/gtest.h>

namespace lithe {
namespace {

/// How often parallel_for visits each of `n` elements when `wanted` threads are set.
std::vector<int> visits(int64_t n, int wanted) {
  const int before = threads();
  set_threads(wanted);
  std::vector<int> count(static_cast<size_t>(n));
  parallel_for(n, 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) ++count[size_t(i)];
  });
  set_threads(before);
  return count;
}

TEST(ParallelFor, VisitsEachElementOnce) {
  for (const int64_t n : {1, 2, 3, 100})
    for (const int wanted : {1, 2, 3}) EXPECT_EQ(visits(n, wanted), std::vector<int>(size_t(n), 1)) << n << wanted;
}

TEST(ParallelFor, DoesAllWorkWhenTheRuntimeGivesFewerThreads) {
  std::vector<int> count;
#pragma omp teams num_teams(1) thread_limit(1)
  count = visits(100, 4);
  EXPECT_EQ(count, std::vector<int>(100, 1));
}

}  // namespace
}  // namespace lithe
