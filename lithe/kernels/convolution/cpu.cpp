// Channels stand in the lanes; a thread has tiles of channels, so that no sum crosses threads.
#include "lithe/kernels/convolution/cpu.h"
#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"
#include "lithe/kernels/cpu/written.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

constexpr int64_t kTile = 2 * kLanes;  // channels that threads do not share
constexpr int64_t kRows = 4;           // that share the taps in registers
constexpr int64_t kBlock = 8;          // rows taken at once: those that the taps reach beside them stay in the cache

/// Calls f(span, first, last, c, lanes) for blocks of rows and vectors of channels, so that a thread reads rows along
/// memory, and end(span, c, lanes) after a segment's last block.
template <class F, class End>
[[gnu::always_inline]] inline void each_block(const ConvolutionCall& call, F&& f, End&& end) {
  const int64_t C = call.channels, tiles = (C + kTile - 1) / kTile;
  const auto vectors = [C](int64_t begin, int64_t stop, auto&& g) __attribute__((always_inline)) {
    for (int64_t c = begin * kTile; c < stop * kTile && c < C; c += kLanes)
      if (c + kLanes <= C)
        g(c, All{});
      else
        g(c, First{int(C - c)});
  };
  parallel(tiles, grain_of_rows(call.rows * kTile * 8), [&, own = f](int64_t begin, int64_t stop, int64_t) {
    for (int64_t i = 0; i < call.count; ++i) {
      const ConvolutionSpan& s = call.spans[i];
      for (int64_t first = s.row; first < s.row + s.rows; first += kBlock) {
        const int64_t last = first + kBlock < s.row + s.rows ? first + kBlock : s.row + s.rows;
        vectors(
            begin, stop, [&](int64_t c, auto lanes) __attribute__((always_inline)) { own(s, first, last, c, lanes); });
      }
      vectors(
          begin, stop, [&](int64_t c, auto lanes) __attribute__((always_inline)) { end(s, c, lanes); });
    }
  });
}

/// Rows of a result, as written.h has them.
template <class T>
[[gnu::always_inline]] inline Written<T> rows_written(const ConvolutionCall& call, void* to) {
  constexpr int64_t bytes = kLanes * int64_t(sizeof(T));
  return {static_cast<T*>(to), call.rows * call.channels * int64_t(sizeof(T)) >= last_cache_bytes() &&
                                   call.channels % kLanes == 0 && reinterpret_cast<uintptr_t>(to) % bytes == 0};
}

/// Row `row` of the segment, of the state before it, or zeros.
template <class T, class Lanes>
[[gnu::always_inline]] inline Vec row_value(const ConvolutionCall& call, const ConvolutionSpan& s, int64_t row,
                                            int64_t c, Lanes lanes) {
  if (row >= s.row + s.rows) return Vec{};
  if (row >= s.row) return load(static_cast<const T*>(call.x) + row * call.channels + c, lanes);
  const int64_t at = call.taps - 1 + row - s.row;
  return s.state && at >= 0 ? load(s.state + at * call.channels + c, lanes) : Vec{};
}

template <class T, class Lanes>
[[gnu::always_inline]] inline void keep_last_rows(const ConvolutionCall& call, const ConvolutionSpan& s, int64_t c,
                                                  Lanes lanes) {
  if (!s.state) return;
  for (int64_t i = 0; i < call.taps - 1; ++i)  // from the oldest: what is read lies behind what is written
    store(s.state + i * call.channels + c, row_value<T>(call, s, s.row + s.rows - (call.taps - 1) + i, c, lanes),
          lanes);
}

template <class T, class Lanes>
[[gnu::always_inline]] inline void depthwise(const ConvolutionCall& call, const Written<T>& y, const ConvolutionSpan& s,
                                             int64_t first, int64_t last, int64_t c, Lanes lanes) {
  const int64_t C = call.channels, taps = call.taps, ahead = call.ahead;
  const float* w = call.w + c;
  const int64_t from = s.row + taps - 1 - ahead, to = s.row + s.rows - ahead;  // rows that see no edge
  const auto careful = [&](int64_t t) __attribute__((always_inline)) {
    Vec sum{};
    for (int64_t r = 0; r < taps; ++r) sum += load(w + r * C, lanes) * row_value<T>(call, s, t + ahead - r, c, lanes);
    y(t * C + c, sum, lanes);
  };
  int64_t t = first;
  for (; t < last && t < from; ++t) careful(t);
  for (; t + kRows <= last && t + kRows <= to; t += kRows) {
    const T* x = static_cast<const T*>(call.x) + (t + ahead) * C + c;
    Vec sum[kRows] = {};
    for (int64_t r = 0; r < taps; ++r, x -= C) {
      const Vec tap = load(w + r * C, lanes);
#pragma GCC unroll 4
      for (int j = 0; j < kRows; ++j) sum[j] += tap * load(x + j * C, lanes);
    }
#pragma GCC unroll 4
    for (int j = 0; j < kRows; ++j) y((t + j) * C + c, sum[j], lanes);
  }
  for (; t < last; ++t) careful(t);
}

template <class T, class Lanes>
[[gnu::always_inline]] inline void gradient(const ConvolutionCall& call, const Written<T>& to, const ConvolutionSpan& s,
                                            int64_t first, int64_t last, int64_t c, Lanes lanes) {
  const int64_t C = call.channels, taps = call.taps, ahead = call.ahead, end = s.row + s.rows;
  const float* w = call.w + c;
  const T* dy = static_cast<const T*>(call.dy) + c;
  T* dx = call.dx ? static_cast<T*>(call.dx) + c : nullptr;
  float* dw = call.dw ? call.dw + c : nullptr;
  const auto careful = [&](int64_t t) __attribute__((always_inline)) {
    Vec sum{};
    const int64_t low = t - ahead < s.row ? s.row - t + ahead : 0, most = end - t + ahead;
    for (int64_t r = low; r < taps && r < most; ++r)
      sum += load(w + r * C, lanes) * load(dy + (t - ahead + r) * C, lanes);
    if (call.accumulate_dx) sum += load(dx + t * C, lanes);
    store(dx + t * C, sum, lanes);
  };
  if (dx) {
    const int64_t inner = s.row + ahead, outer = end - (taps - 1 - ahead);  // rows that see no edge
    int64_t t = first;
    for (; t < last && t < inner; ++t) careful(t);
    for (; t + kRows <= last && t + kRows <= outer; t += kRows) {
      const T* from = dy + (t - ahead) * C;
      Vec sum[kRows] = {};
      for (int64_t r = 0; r < taps; ++r, from += C) {
        const Vec tap = load(w + r * C, lanes);
#pragma GCC unroll 4
        for (int j = 0; j < kRows; ++j) sum[j] += tap * load(from + j * C, lanes);
      }
#pragma GCC unroll 4
      for (int j = 0; j < kRows; ++j) {
        if (call.accumulate_dx)
          store(dx + (t + j) * C, sum[j] + load(dx + (t + j) * C, lanes), lanes);
        else
          to((t + j) * C + c, sum[j], lanes);
      }
    }
    for (; t < last; ++t) careful(t);
  }
  for (int64_t r = 0; r < taps && dw; ++r) {
    const int64_t from = s.row + r - ahead,
                  to = end + r - ahead < last ? end + r - ahead : last;  // x is in the segment
    const T* x = static_cast<const T*>(call.x) + (ahead - r) * C + c;
    Vec sum[2] = {};
    int64_t t = first;
    for (; t < last && t < from; ++t)
      sum[0] += load(dy + t * C, lanes) * row_value<T>(call, s, t + ahead - r, c, lanes);
    for (; t + 2 <= to; t += 2)
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) sum[j] += load(dy + (t + j) * C, lanes) * load(x + (t + j) * C, lanes);
    for (; t < to; ++t) sum[0] += load(dy + t * C, lanes) * load(x + t * C, lanes);
    store(dw + r * C, load(dw + r * C, lanes) + (sum[0] + sum[1]), lanes);
  }
}

template <class T, class Lanes>
[[gnu::always_inline]] inline void unfolded(const ConvolutionCall& call, const ConvolutionSpan& s, int64_t first,
                                            int64_t last, int64_t c, Lanes lanes) {
  const int64_t C = call.channels, taps = call.taps;
  T* y = static_cast<T*>(call.y) + c;
  for (int64_t t = first; t < last; ++t)
    for (int64_t r = 0; r < taps; ++r)
      store(y + (t * taps + r) * C, row_value<T>(call, s, t + call.ahead - r, c, lanes), lanes);
}

template <class T, class Lanes>
[[gnu::always_inline]] inline void folded(const ConvolutionCall& call, const ConvolutionSpan& s, int64_t first,
                                          int64_t last, int64_t c, Lanes lanes) {
  const int64_t C = call.channels, taps = call.taps;
  const T* dy = static_cast<const T*>(call.dy) + c;
  T* dx = static_cast<T*>(call.dx) + c;
  for (int64_t t = first; t < last; ++t) {
    Vec sum{};
    for (int64_t r = 0; r < taps; ++r) {
      const int64_t from = t - call.ahead + r;
      if (from >= s.row && from < s.row + s.rows) sum += load(dy + (from * taps + r) * C, lanes);
    }
    if (call.accumulate_dx) sum += load(dx + t * C, lanes);
    store(dx + t * C, sum, lanes);
  }
}

}  // namespace

void convolution(const ConvolutionCall& call) {
  const auto nothing = [](const ConvolutionSpan&, int64_t, auto) {};
  by_type(call.dtype, [&]<class T>() {
    const auto keep_rows = [&](const ConvolutionSpan& s, int64_t c, auto lanes) __attribute__((always_inline)) {
      keep_last_rows<T>(call, s, c, lanes);
    };
    switch (call.kind) {
      case ConvolutionCall::depthwise: {
        const Written<T> y = rows_written<T>(call, call.y);
        return each_block(
            call,
            [&](const ConvolutionSpan& s, int64_t first, int64_t last, int64_t c, auto lanes)
                __attribute__((always_inline)) { depthwise<T>(call, y, s, first, last, c, lanes); },
            keep_rows);
      }
      case ConvolutionCall::gradient: {
        const Written<T> dx = rows_written<T>(call, call.dx);
        for (int64_t i = 0; i < call.taps * call.channels && call.dw && !call.accumulate_dw; ++i) call.dw[i] = 0;
        return each_block(
            call,
            [&](const ConvolutionSpan& s, int64_t first, int64_t last, int64_t c, auto lanes)
                __attribute__((always_inline)) { gradient<T>(call, dx, s, first, last, c, lanes); },
            nothing);
      }
      case ConvolutionCall::unfold:
        return each_block(
            call,
            [&](const ConvolutionSpan& s, int64_t first, int64_t last, int64_t c, auto lanes)
                __attribute__((always_inline)) { unfolded<T>(call, s, first, last, c, lanes); },
            keep_rows);
      case ConvolutionCall::fold:
        return each_block(
            call,
            [&](const ConvolutionSpan& s, int64_t first, int64_t last, int64_t c, auto lanes)
                __attribute__((always_inline)) { folded<T>(call, s, first, last, c, lanes); },
            nothing);
    }
  });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
