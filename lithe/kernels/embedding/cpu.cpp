// Rows come from anywhere in a table: while one is in work, the next is asked for.
#include "lithe/kernels/embedding/embedding.h"

#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"
#include "lithe/kernels/cpu/written.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

template <class T, class O, bool accumulate>
void gather_of(const GatherArgs& a) {
  const int64_t N = a.ids.numel(), D = cols_of(a.table);
  const T* table = pointer<T>(a.table);
  const int32_t* ids = pointer<int32_t>(a.ids);
  const Written<O> out = written<O>(a.out, D);
  const float scale = float(a.scale);
  parallel(N, grain_of_rows(D * int64_t(sizeof(T) + sizeof(O))), [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t first = n * D;
      if (ids[n] < 0) {
        if (!accumulate) each(D, [=](int64_t d, auto lanes) { out(first + d, Vec{}, lanes); });
        continue;
      }
      const T *row = table + int64_t(ids[n]) * D,
              *next = n + 1 < end && ids[n + 1] >= 0 ? table + int64_t(ids[n + 1]) * D : row;
      each(D, [=](int64_t d, auto lanes) {
        __builtin_prefetch(next + d);
        put<accumulate>(out, first + d, load(row + d, lanes) * scale, lanes);
      });
    }
  });
}

template <class T>
void scatter_add_of(const ScatterAddArgs& a) {
  const int64_t N = a.ids.numel(), D = cols_of(a.dtable);
  const T* dout = pointer<T>(a.dout);
  const int32_t* ids = pointer<int32_t>(a.ids);
  float* dtable = pointer<float>(a.dtable);
  const float scale = float(a.scale);
  const int64_t skip = a.skip, parts = parts_of(N, grain_of_rows(D * int64_t(sizeof(T) + 2 * sizeof(float))));
  // Every part walks all ids and takes those whose table row is its own, so that each row of the table sees
  // its additions in the order of n, whatever the number of threads.
  parallel(parts, 1, [=](int64_t begin, int64_t end, int64_t) {
    // The first of the part's own ids from n on.
    const auto own = [=](int64_t n) {
      for (; n < N; ++n)
        if (ids[n] >= 0 && ids[n] != skip && ids[n] % parts >= begin && ids[n] % parts < end) break;
      return n;
    };
    for (int64_t n = own(0), next; n < N; n = next) {
      next = own(n + 1);
      const int64_t coming = next < N ? next : n;
      const T *from = dout + n * D, *coming_from = dout + coming * D;
      float *to = dtable + ids[n] * D, *coming_to = dtable + ids[coming] * D;
      each(D, [=](int64_t d, auto lanes) {
        __builtin_prefetch(coming_from + d);
        __builtin_prefetch(coming_to + d);
        store(to + d, load(to + d, lanes) + load(from + d, lanes) * scale, lanes);
      });
    }
  });
}

}  // namespace

void gather(const GatherArgs& a) {
  by_type(a.table.dtype(), [&]<class T>() {
    by_type(a.out.dtype(),
            [&]<class O>() { by_flag(a.accumulate, [&]<bool accumulate>() { gather_of<T, O, accumulate>(a); }); });
  });
}

void scatter_add(const ScatterAddArgs& a) {
  by_type(a.dout.dtype(), [&]<class T>() { scatter_add_of<T>(a); });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
