// Channels stand in the lanes; a thread has tiles of channels, so that no sum crosses threads.
#include "lithe/kernels/diagonal_recurrence/cpu.h"
#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

/// A number of each lane; im is 0 and left out where there are none.
template <bool kComplex>
struct Number {
  Vec re, im;
};
template <bool kComplex>
[[gnu::always_inline]] inline Number<kComplex> times(Number<kComplex> a, Number<kComplex> b) {
  if constexpr (kComplex) return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
  return {a.re * b.re, Vec{}};
}
/// conj(a) b
template <bool kComplex>
[[gnu::always_inline]] inline Number<kComplex> conjugate_times(Number<kComplex> a, Number<kComplex> b) {
  if constexpr (kComplex) return {a.re * b.re + a.im * b.im, a.re * b.im - a.im * b.re};
  return {a.re * b.re, Vec{}};
}
template <bool kComplex>
[[gnu::always_inline]] inline Number<kComplex> plus(Number<kComplex> a, Number<kComplex> b) {
  return {a.re + b.re, a.im + b.im};
}
template <bool kComplex, class T, class Lanes>
[[gnu::always_inline]] inline Number<kComplex> number(const T* p, int64_t half, Lanes lanes) {
  if constexpr (kComplex) return {load(p, lanes), load(p + half, lanes)};
  return {load(p, lanes), Vec{}};
}
template <bool kComplex, class T, class Lanes>
[[gnu::always_inline]] inline void put(T* p, int64_t half, Number<kComplex> x, bool add, Lanes lanes) {
  if (add) x = plus(x, number<kComplex>(p, half, lanes));
  store(p, x.re, lanes);
  if constexpr (kComplex) store(p + half, x.im, lanes);
}

/// Calls f.operator()<kVectors>(c, lanes) for tiles of channels, all of a cache line of rows.
template <class T, class F>
[[gnu::always_inline]] inline void each_channels(const DiagonalCall& call, int64_t channels, int64_t bytes, F&& f) {
  constexpr int kVectors = 2;
  const int64_t tile = kVectors * kLanes, tiles = (channels + tile - 1) / tile;
  parallel(tiles, grain_of_rows(call.rows * tile * bytes), [&, own = f](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c = i * tile;
      if (c + tile <= channels) {
        own.template operator()<kVectors>(c, All{});
        continue;
      }
      for (int64_t at = c; at < channels; at += kLanes)
        if (at + kLanes <= channels)
          own.template operator()<1>(at, All{});
        else
          own.template operator()<1>(at, First{int(channels - at)});
    }
  });
}

template <class T, bool kComplex>
void run(const DiagonalCall& call) {
  const DiagonalRecurrenceArgs& args = *call.args;
  const int64_t C = cols_of(args.x), half = C / 2, step = args.a.shape().rank() == 1 ? 0 : C;
  const T* x = pointer<const T>(args.x);
  const float* a = pointer<const float>(args.a);
  const float* b = pointer<const float>(args.b);
  T* y = pointer<T>(args.y);
  each_channels<T>(
      call, kComplex ? half : C,
      2 * sizeof(T), [=]<int kVectors>(int64_t c, auto lanes) __attribute__((always_inline)) {
        for (int64_t i = 0; i < call.count; ++i) {
          const DiagonalSpan& span = call.spans[i];
          Number<kComplex> z[kVectors], factor[kVectors], scale[kVectors];
#pragma GCC unroll 4
          for (int r = 0; r < kVectors; ++r) {
            const int64_t at = c + r * kLanes;
            z[r] = Number<kComplex>{};
            scale[r] = b ? number<kComplex>(b + at, half, lanes) : Number<kComplex>{splat(1), Vec{}};
            if (span.state) z[r] = number<kComplex>(span.state + at, half, lanes);
            factor[r] = number<kComplex>(a + (step ? span.row * C : 0) + at, half, lanes);
          }
          for (int64_t row = span.row; row < span.row + span.rows; ++row)
#pragma GCC unroll 4
            for (int r = 0; r < kVectors; ++r) {
              const int64_t at = row * C + c + r * kLanes;
              if (step) factor[r] = number<kComplex>(a + at, half, lanes);
              Number<kComplex> added = number<kComplex>(x + at, half, lanes);
              if (b) added = times(scale[r], added);
              z[r] = plus(times(factor[r], z[r]), added);
              put(y + at, half, z[r], false, lanes);
            }
          if (span.state)
#pragma GCC unroll 4
            for (int r = 0; r < kVectors; ++r) put(span.state + c + r * kLanes, half, z[r], false, lanes);
        }
      });
}

template <class T, bool kComplex>
void run_grad(const DiagonalCall& call) {
  const DiagonalRecurrenceGradArgs& g = *call.grad_args;
  const DiagonalRecurrenceArgs& args = g.forward;
  const int64_t C = cols_of(args.x), half = C / 2, step = args.a.shape().rank() == 1 ? 0 : C;
  const T *x = pointer<const T>(args.x), *y = pointer<const T>(args.y), *dy = pointer<const T>(g.dy);
  const float *a = pointer<const float>(args.a), *b = pointer<const float>(args.b);
  T* dx = pointer<T>(g.dx);
  float *da = pointer<float>(g.da), *db = pointer<float>(g.db);
  const bool add_dx = g.accumulate_dx, add_da = g.accumulate_da, add_db = g.accumulate_db;
  each_channels<T>(
      call, kComplex ? half : C,
      3 * sizeof(T), [=]<int kVectors>(int64_t c, auto lanes) __attribute__((always_inline)) {
        Number<kComplex> all[kVectors] = {}, written[kVectors] = {}, d[kVectors], factor[kVectors], scale[kVectors];
#pragma GCC unroll 4
        for (int r = 0; r < kVectors; ++r)
          scale[r] = b ? number<kComplex>(b + c + r * kLanes, half, lanes) : Number<kComplex>{splat(1), Vec{}};
        for (int64_t i = 0; i < call.count; ++i) {
          const DiagonalSpan& span = call.spans[i];
#pragma GCC unroll 4
          for (int r = 0; r < kVectors; ++r) {
            d[r] = Number<kComplex>{};
            factor[r] = number<kComplex>(a + (step ? span.row * C : 0) + c + r * kLanes, half, lanes);
          }
          const int64_t end = span.row + span.rows;
          for (int64_t row = end; row-- > span.row;)
#pragma GCC unroll 4
            for (int r = 0; r < kVectors; ++r) {
              const int64_t at = row * C + c + r * kLanes;
              if (step && row + 1 < end) factor[r] = number<kComplex>(a + at + C, half, lanes);
              d[r] = plus(conjugate_times(factor[r], d[r]), number<kComplex>(dy + at, half, lanes));
              put(dx + at, half, b ? conjugate_times(scale[r], d[r]) : d[r], add_dx, lanes);
              if (db) written[r] = plus(written[r], conjugate_times(number<kComplex>(x + at, half, lanes), d[r]));
              if (!da) continue;
              Number<kComplex> before{};
              if (row > span.row)
                before = number<kComplex>(y + at - C, half, lanes);
              else if (span.state)
                before = number<kComplex>(span.state + c + r * kLanes, half, lanes);
              const Number<kComplex> change = conjugate_times(before, d[r]);
              if (step)
                put(da + at, half, change, add_da, lanes);
              else
                all[r] = plus(all[r], change);
            }
        }
        if (db)
#pragma GCC unroll 4
          for (int r = 0; r < kVectors; ++r) put(db + c + r * kLanes, half, written[r], add_db, lanes);
        if (da && !step)
#pragma GCC unroll 4
          for (int r = 0; r < kVectors; ++r) put(da + c + r * kLanes, half, all[r], add_da, lanes);
      });
}

}  // namespace

void diagonal_recurrence(const DiagonalCall& call) {
  by_type(call.args->x.dtype(),
          [&]<class T>() { by_flag(call.args->complex, [&]<bool kComplex>() { run<T, kComplex>(call); }); });
}
void diagonal_recurrence_grad(const DiagonalCall& call) {
  by_type(call.args->x.dtype(),
          [&]<class T>() { by_flag(call.args->complex, [&]<bool kComplex>() { run_grad<T, kComplex>(call); }); });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
