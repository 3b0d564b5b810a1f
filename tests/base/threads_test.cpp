#include "lithe/base/threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

namespace lithe {
namespace {

/// parallel_tasks of `wanted` threads.
template <class F>
void run_tasks(int64_t n, int wanted, F&& f) {
  const int before = threads();
  set_threads(wanted);
  try {
    parallel_tasks(n, f);
  } catch (...) {
    set_threads(before);
    throw;
  }
  set_threads(before);
}

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

TEST(ParallelTasks, DoesEachOnceAndDividesNoLoopInside) {
  for (const int64_t n : {0, 1, 2, 3, 100})
    for (const int wanted : {1, 2, 3}) {
      std::vector<int> count(static_cast<size_t>(n));
      std::atomic<int> parts = 0;
      run_tasks(n, wanted, [&](int64_t task) {
        ++count[size_t(task)];
        if (wanted > 1 && n > 1) parallel_for(100, 1, [&](int64_t, int64_t, int) { ++parts; });
      });
      EXPECT_EQ(count, std::vector<int>(size_t(n), 1)) << n << wanted;
      EXPECT_EQ(parts, wanted > 1 && n > 1 ? n : 0) << n << wanted;
    }
}

TEST(ParallelTasks, ThrowsWhatATaskThrewAndBeginsNoOther) {
  for (const int wanted : {1, 2, 3}) {
    std::atomic<int> begun = 0;
    try {
      run_tasks(1000000, wanted, [&](int64_t) {
        ++begun;
        throw std::runtime_error("no");
      });
      ADD_FAILURE();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "no");
    }
    EXPECT_GE(begun, 1);
    EXPECT_LE(begun, wanted);
  }
}

}  // namespace
}  // namespace lithe
