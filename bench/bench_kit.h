// What the benchmarks share: clocks, medians, the read bandwidth of the machine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <functional>
#include <vector>

#include "lithe/base/threads.h"
#include "lithe/tensor/tensor.h"

namespace lithe::bench {

/// Seconds. One thread is timed by its processor time, which other programs do not lengthen.
inline double now() {
  timespec t;
  clock_gettime(threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

inline double seconds(const std::function<void()>& f) {
  const double start = now();
  f();
  return now() - start;
}

inline double median(std::vector<double> x) {
  std::sort(x.begin(), x.end());
  return x[x.size() / 2];
}

inline double quantile(std::vector<double> x, double q) {
  std::sort(x.begin(), x.end());
  return x[size_t(q * double(x.size() - 1) + 0.5)];
}

/// GB/s of reading all of x once with all threads.
inline double read_gbs(const Tensor& x) {
  typedef int64_t V __attribute__((vector_size(16)));
  const auto* data = reinterpret_cast<const V*>(x.data<uint8_t>());
  std::vector<int64_t> sums(size_t(threads()), 0);
  const double begin = now();
  parallel_for(x.bytes() / 64, 1, [&](int64_t from, int64_t to, int thread) {
    V a{}, b{}, c{}, d{};
    for (int64_t i = from; i < to; ++i)
      a += data[4 * i], b += data[4 * i + 1], c += data[4 * i + 2], d += data[4 * i + 3];
    sums[size_t(thread)] = (a + b + c + d)[0];
  });
  const double seconds = now() - begin;
  volatile int64_t keep = sums[0];
  (void)keep;
  return double(x.bytes()) / seconds / 1e9;
}

}  // namespace lithe::bench
