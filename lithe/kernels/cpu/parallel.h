// lithe::parallel_for for kernels that are compiled once per instruction set: the same split, in a
// namespace of its own (base/threads.h would give all sets one shared copy of the loop).
#pragma once

#include <atomic>

#include "lithe/base/threads.h"
#include "lithe/kernels/cpu/vector.h"

namespace lithe::kernels::cpu::LITHE_ISA {

/// Parts into which [0, n) is cut: one a thread, each at least `grain` long.
[[gnu::always_inline]] inline int64_t parts_of(int64_t n, int64_t grain) {
  const int64_t fit = n / (grain > 1 ? grain : 1), most = threads();
  return fit < 1 || omp_in_parallel() ? 1 : fit < most ? fit : most;
}

/// Calls f(begin, end, part) on contiguous parts of [0, n). The split depends only on n, grain and
/// threads(), so sums done per part are reproducible.
template <class F>
[[gnu::always_inline]] inline void parallel(int64_t n, int64_t grain, F&& f) {
  if (n <= 0) return;
  const int64_t parts = parts_of(n, grain);
  if (parts == 1) {
    auto own = f;
    own(int64_t(0), n, int64_t(0));
    finish_streams();
    return;
  }
#pragma omp parallel num_threads(int(parts))
  {
    // A copy of its own keeps what f captured in registers; through the shared one, every store of a
    // kernel might change it.
    auto own = f;
    // OMP_THREAD_LIMIT and OMP_DYNAMIC may give fewer threads than asked for: then one does several parts.
    for (int64_t part = omp_get_thread_num(); part < parts; part += omp_get_num_threads())
      own(n * part / parts, n * (part + 1) / parts, part);
    finish_streams();
  }
}

/// Calls f(begin, end) on pieces of [0, n), each by whichever thread is free: for work bound by memory, which does not
/// serve all threads equally fast. Pieces shrink, so that no thread waits long for the last; all but that one are even.
/// A piece must not depend on who computes it.
template <class F>
[[gnu::always_inline]] inline void parallel_pieces(int64_t n, int64_t grain, F&& f) {
  const int64_t parts = parts_of(n, grain);
  std::atomic<int64_t> next{0};
  parallel(parts, 1, [&, own = f](int64_t, int64_t, int64_t) {
    for (int64_t begin = 0, end = 0; begin < n;) {
      end = begin + (n - begin) / (4 * parts) * 2 + 2;
      if (end > n) end = n;
      if (!next.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
      own(begin, end);
      begin = end;
    }
  });
}

/// Calls f(i, thread) for each i of [0, n), one at a time: for work bound by arithmetic on processors that others use,
/// too, so that not all are equally fast. A thread begins with a range of its own and then takes what others have left:
/// what one core has written, another waits for, so that an item should meet the data of its neighbours, and of the
/// same item in the next call. An i must not depend on who computes it.
template <class F>
[[gnu::always_inline]] inline void parallel_items(int64_t n, F&& f) {
  constexpr int64_t kMost = 64, kLine = 64 / sizeof(int64_t);
  const int64_t parts = parts_of(n, 1), ranges = parts < kMost ? parts : kMost;
  alignas(64) int64_t next[kMost][kLine];  // a cache line each
  for (int64_t i = 0; i < ranges; ++i) next[i][0] = n * i / ranges;
  parallel(parts, 1, [&, own = f](int64_t part, int64_t, int64_t thread) {
    for (int64_t turn = 0, at = part * ranges / parts; turn < ranges; ++turn, at = (at + 1) % ranges)
      for (int64_t i; (i = __atomic_fetch_add(next[at], 1, __ATOMIC_RELAXED)) < n * (at + 1) / ranges;) own(i, thread);
  });
}

/// Bytes of memory traffic below which a second thread costs more than it saves.
constexpr int64_t kGrainBytes = 1 << 16;

/// Rows that make a part worth a thread, at `bytes` of traffic each.
[[gnu::always_inline]] inline int64_t grain_of_rows(int64_t bytes) { return kGrainBytes / (bytes > 1 ? bytes : 1) + 1; }

/// parallel() over n elements of `bytes` of traffic each, cut at multiples of 1024 elements so that no
/// two threads write to one cache line. f(begin, count).
template <class F>
[[gnu::always_inline]] inline void parallel_elements(int64_t n, int64_t bytes, F&& f) {
  constexpr int64_t kBlock = 1024;
  parallel((n + kBlock - 1) / kBlock, grain_of_rows(kBlock * bytes), [=](int64_t begin, int64_t end, int64_t) {
    const int64_t first = begin * kBlock, last = end * kBlock < n ? end * kBlock : n;
    f(first, last - first);
  });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
