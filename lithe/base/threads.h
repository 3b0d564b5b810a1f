// One OpenMP runtime for everything.
#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>

namespace lithe {

/// Threads the process may use: the least of the CPU affinity, the cgroup quota and OMP_NUM_THREADS.
int usable_threads();

/// Threads that parallel loops use; usable_threads() until set. n must be at least 1.
int threads();
void set_threads(int n);

/// Calls f(begin, end, thread) on contiguous parts of [0, n), one part a thread, each at least `grain`
/// long. The split depends only on n, grain and threads(), so sums done per part are reproducible.
template <class F>
void parallel_for(int64_t n, int64_t grain, F&& f) {
  if (n <= 0) return;
  const int64_t parts = std::clamp<int64_t>(n / std::max<int64_t>(grain, 1), 1, threads());
  if (parts == 1 || omp_in_parallel()) {
    f(int64_t(0), n, 0);
    return;
  }
#pragma omp parallel num_threads(int(parts))
  {
    // OMP_THREAD_LIMIT and OMP_DYNAMIC may give fewer threads than asked for: then one does several parts.
    for (int64_t part = omp_get_thread_num(); part < parts; part += omp_get_num_threads())
      f(n * part / parts, n * (part + 1) / parts, int(part));
  }
}

/// Calls f(task) for each task of [0, n), in this order, each by whichever thread is free; loops inside a task are not
/// divided. An exception ends the work: tasks that run are finished, others are not begun, and it is thrown here.
template <class F>
void parallel_tasks(int64_t n, F&& f) {
  std::atomic<int64_t> next = 0;
  std::atomic<bool> failed = false;
  std::exception_ptr error;  // the first; none may leave a parallel loop
  parallel_for(std::min<int64_t>(n, threads()), 1, [&](int64_t, int64_t, int) {
    try {
      for (int64_t task; !failed && (task = next++) < n;) f(task);
    } catch (...) {
      if (!failed.exchange(true)) error = std::current_exception();
    }
  });
  if (error) std::rethrow_exception(error);
}

}  // namespace lithe
