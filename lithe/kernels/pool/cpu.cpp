#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"
#include "lithe/kernels/pool/pool.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

/// The lower and the upper half of v in double, each divided by one number and put together again.
struct Doubles {
  DoubleVec low, high;
  [[gnu::always_inline]] static Doubles of(Vec v) {
    HalfFloats half[2];
    __builtin_memcpy(half, &v, sizeof v);
    return {__builtin_convertvector(half[0], DoubleVec), __builtin_convertvector(half[1], DoubleVec)};
  }
  [[gnu::always_inline]] Vec over(double n) const {
    const HalfFloats half[2] = {__builtin_convertvector(low / n, HalfFloats),
                                __builtin_convertvector(high / n, HalfFloats)};
    Vec v;
    __builtin_memcpy(&v, half, sizeof v);
    return v;
  }
};

template <class T, bool kMax>
void run(const PoolArgs& a) {
  const int64_t cols = cols_of(a.x), *offsets = a.offsets.data(), *from = a.from.data();
  const T* x = pointer<const T>(a.x);
  T* out = pointer<T>(a.out);
  auto* rows = static_cast<float*>(kMax ? a.rows.raw() : nullptr);  // ints, moved as they are
  const int64_t sequences = rows_of(a.out), each_reads = offsets[sequences] / (sequences > 0 ? sequences : 1) + 1;
  parallel(sequences, grain_of_rows(cols * each_reads * int64_t(sizeof(T))), [=](int64_t first, int64_t last, int64_t) {
    for (int64_t b = first; b < last; ++b)
      each(cols, [=](int64_t c, auto lanes) {
        const int64_t begin = offsets[b], end = offsets[b + 1];
        if constexpr (kMax) {
          const int64_t start = from ? from[begin] : begin;
          Vec best = load(x + start * cols + c, lanes);
          IntVec at = IntVec{} + int32_t(start);
          for (int64_t i = begin + 1; i < end; ++i) {
            const int64_t row = from ? from[i] : i;
            const Vec value = load(x + row * cols + c, lanes);
            const IntVec better = (value > best) | (value != value);
            best = better ? value : best;
            at = better ? IntVec{} + int32_t(row) : at;
          }
          store(out + b * cols + c, best, lanes);
          store(rows + b * cols + c, as_floats(at), lanes);
        } else {
          Doubles sum{};
          for (int64_t i = begin; i < end; ++i) {
            const Doubles value = Doubles::of(load(x + (from ? from[i] : i) * cols + c, lanes));
            sum.low += value.low, sum.high += value.high;
          }
          store(out + b * cols + c, sum.over(double(end - begin)), lanes);
        }
      });
  });
}

template <class T, bool kMax>
void run_grad(const PoolGradArgs& a) {
  const int64_t cols = cols_of(a.dx), *offsets = a.offsets.data();
  const int64_t *starts = a.reader_offsets, *readers = a.readers;
  const T* dout = pointer<const T>(a.dout);
  T* dx = pointer<T>(a.dx);
  const auto* rows = static_cast<const float*>(kMax ? a.rows.raw() : nullptr);
  const bool accumulate = a.accumulate;
  parallel(rows_of(a.dx), grain_of_rows(3 * cols * int64_t(sizeof(T))), [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t n = begin; n < end; ++n)
      each(cols, [=](int64_t c, auto lanes) {
        Vec sum = accumulate ? load(dx + n * cols + c, lanes) : Vec{};
        for (int64_t i = starts[n]; i < starts[n + 1]; ++i) {
          const int64_t b = readers[i];
          const Vec d = load(dout + b * cols + c, lanes);
          if constexpr (kMax)
            sum = as_ints(load(rows + b * cols + c, lanes)) == int32_t(n) ? sum + d : sum;
          else
            sum = sum + Doubles::of(d).over(double(offsets[b + 1] - offsets[b]));
        }
        store(dx + n * cols + c, sum, lanes);
      });
  });
}

}  // namespace

void pool(const PoolArgs& a) {
  by_type(a.x.dtype(), [&]<class T>() { a.kind == Pooling::max ? run<T, true>(a) : run<T, false>(a); });
}
void pool_grad(const PoolGradArgs& a) {
  by_type(a.dx.dtype(), [&]<class T>() { a.kind == Pooling::max ? run_grad<T, true>(a) : run_grad<T, false>(a); });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
