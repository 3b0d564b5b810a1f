// What everything that times code shares: the clock, and medians.
#pragma once

#include <ctime>
#include <vector>

#include "lithe/base/threads.h"
#include "lithe/compare/statistics.h"

namespace lithe::bench {

using compare::quantile;

/// Seconds. One thread is timed by its processor time, which other programs do not lengthen.
inline double now() {
  timespec t;
  clock_gettime(threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

/// Seconds of f().
template <class F>
double seconds(F&& f) {
  const double start = now();
  f();
  return now() - start;
}

inline double median(std::vector<double> x) { return quantile(std::move(x), 0.5); }

}  // namespace lithe::bench
