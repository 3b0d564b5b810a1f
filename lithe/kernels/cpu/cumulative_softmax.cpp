// The sums run along the rows with the channels in the lanes. A block of rows at a time has its exponentials made and
// then passes through registers that hold the sums of a tile of channels, while later rows are asked for: rows of one
// head are far apart in memory, where no hardware would foresee them.
#include "lithe/kernels/cpu/cumulative.h"
#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"
#include "lithe/kernels/cpu/written.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

constexpr int64_t kRows = 64;   // rows of a block; a multiple of kLanes
constexpr int64_t kAhead = 8;  // rows from the one in work to what is asked for
constexpr int kTile = 8;        // vectors of channels in registers

/// Calls f.operator()<R>(c, lanes) for R vectors of channels from c on, R a power of two, so that [c, C) is covered.
template <int R = kTile, class F>
[[gnu::always_inline]] inline void each_tile(int64_t C, F&& f, int64_t c = 0) {
  for (; c + R * kLanes <= C; c += R * kLanes) f.template operator()<R>(c, All{});
  if constexpr (R > 1)
    each_tile<R / 2>(C, f, c);
  else if (c < C)
    f.template operator()<1>(c, First{int(C - c)});
}

/// Calls f(span, head, space) for every head of every span.
template <class F>
[[gnu::always_inline]] inline void each_head(const CumulativeTask& task, int64_t heads, int64_t channels, int64_t bytes,
                                             F&& f) {
  const int64_t count = task.count * heads;
  if (count == 0) return;
  parallel(count, grain_of_rows(task.rows * heads * channels * bytes / count),
           [=](int64_t begin, int64_t end, int64_t part) {
             for (int64_t i = begin; i < end; ++i)
               f(task.spans[i / heads], i % heads, task.space + part * 2 * channels);
           });
}

[[gnu::always_inline]] inline void exponentials(float* x, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) store(x + i, exp(load(x + i)));
}

/// The running maximum and denominator of a head.
struct Running {
  float maximum, denominator;
};

/// Of each row i of a block, m the running maximum: weight e^(s[i] - m[i]), shrink e^(m[i-1] - m[i]), and the
/// denominator after it.
struct Block {
  int64_t rows;
  alignas(64) float weight[kRows], shrink[kRows], maximum[kRows], denominator[kRows], inverse[kRows];
};

[[gnu::always_inline]] inline void weigh(Block& b, const float* s, int64_t stride, Running& now) {
  for (int64_t i = 0; i < b.rows; ++i) {
    const float x = s[i * stride], maximum = x > now.maximum ? x : now.maximum;
    b.weight[i] = x - maximum;
    b.shrink[i] = now.maximum - maximum;
    b.maximum[i] = now.maximum = maximum;
  }
  for (int64_t i = b.rows; i % kLanes; ++i) b.weight[i] = b.shrink[i] = 0, b.denominator[i] = 1;
  exponentials(b.weight, b.rows);
  exponentials(b.shrink, b.rows);
  for (int64_t i = 0; i < b.rows; ++i) b.denominator[i] = now.denominator = now.denominator * b.shrink[i] + b.weight[i];
  for (int64_t i = 0; i < b.rows; i += kLanes) store(b.inverse + i, 1.0f / load(b.denominator + i));
}

template <class T, bool causal>
void run(const CumulativeTask& task) {
  const CumulativeSoftmaxArgs& a = *task.args;
  const int64_t heads = cols_of(a.s), C = cols_of(a.v) / heads, row = heads * C;
  const float* all_s = pointer<const float>(a.s);
  const T* all_v = pointer<const T>(a.v);
  const Written<T> out = written<T>(a.out, C);
  float* all_lse = pointer<float>(a.lse);
  each_head(task, heads, C, 2 * int64_t(sizeof(T)), [=](const CumulativeSpan& span, int64_t head, float* numerator) {
    const float* s = all_s + span.row * heads + head;
    const int64_t start = span.row * row + head * C;
    float* lse = all_lse ? all_lse + span.row * heads + head : nullptr;
    float* state = span.state ? span.state + head * (C + 2) : nullptr;
    Running now{-__builtin_inff(), 0};
    each(C, [&](int64_t c, auto lanes) { store(numerator + c, state ? load(state + c, lanes) : Vec{}, lanes); });
    if (state && state[C + 1] > 0) now = {state[C], state[C + 1]};
    Block b;
    for (int64_t first = 0; first < span.rows; first += kRows) {
      b.rows = span.rows - first < kRows ? span.rows - first : kRows;
      weigh(b, s + first * heads, heads, now);
      each_tile(
          C, [&]<int R>(int64_t c, auto lanes) __attribute__((always_inline)) {
            Vec sums[R];
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) sums[r] = load(numerator + c + r * kLanes, lanes);
            int64_t at = start + first * row + c;
            for (int64_t i = 0; i < b.rows; ++i, at += row) {
              const float w = b.weight[i], f = b.shrink[i], inverse = b.inverse[i];
#pragma GCC unroll 8
              for (int r = 0; r < R; ++r) {
                const T* v = all_v + at + r * kLanes;
                __builtin_prefetch(v + kAhead * row);
                sums[r] = sums[r] * f + w * load(v, lanes);
                if constexpr (causal) out(at + r * kLanes, sums[r] * inverse, lanes);
              }
            }
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) store(numerator + c + r * kLanes, sums[r], lanes);
          });
      if (causal && lse)
        for (int64_t i = 0; i < b.rows; ++i) lse[(first + i) * heads] = b.maximum[i] + __builtin_logf(b.denominator[i]);
    }
    if (!causal) {
      const float inverse = 1 / now.denominator, log = now.maximum + __builtin_logf(now.denominator);
      for (int64_t i = 0; i < span.rows; ++i) {
        each(C, [&](int64_t c, auto lanes) { out(start + i * row + c, load(numerator + c, lanes) * inverse, lanes); });
        if (lse) lse[i * heads] = log;
      }
    }
    if (!state) return;
    each(C, [&](int64_t c, auto lanes) { store(state + c, load(numerator + c, lanes), lanes); });
    state[C] = now.maximum;
    state[C + 1] = now.denominator;
  });
}

// Rows from last to first: R = sum_i e^(lse_j - lse_i) dout_i in `space`, and the same sum of dout_i . out_i.
template <class T, bool causal>
void run_grad(const CumulativeTask& task) {
  const CumulativeSoftmaxGradArgs& g = *task.grad_args;
  const CumulativeSoftmaxArgs& a = g.forward;
  const int64_t heads = cols_of(a.s), C = cols_of(a.v) / heads, row = heads * C;
  const bool add_ds = g.accumulate_ds, add_dv = g.accumulate_dv;
  const float *all_s = pointer<const float>(a.s), *all_lse = pointer<const float>(a.lse);
  const T *v = pointer<const T>(a.v), *out = pointer<const T>(a.out), *dout = pointer<const T>(g.dout);
  float* all_ds = pointer<float>(g.ds);
  const Written<T> dv = written<T>(g.dv, C);
  each_head(task, heads, C, 4 * int64_t(sizeof(T)), [=](const CumulativeSpan& span, int64_t head, float* sums) {
    const float *s = all_s + span.row * heads + head, *lse = all_lse + span.row * heads + head;
    const int64_t start = span.row * row + head * C;
    float* ds = all_ds + span.row * heads + head;
    alignas(64) float weight[kRows], decay[kRows], means[kRows], dots[kRows];
    float mean = 0;  // the sum of dout . out
    each(C, [&](int64_t c, auto lanes) { store(sums + c, Vec{}, lanes); });
    const auto put_ds = [&](int64_t i, float d) { ds[i * heads] = add_ds ? ds[i * heads] + d : d; };
    const auto put_dv = [=](int64_t at, Vec d, auto lanes) __attribute__((always_inline)) {
      if (add_dv)
        put<true>(dv, at, d, lanes);
      else
        put<false>(dv, at, d, lanes);
    };
    for (int64_t end = span.rows; end > 0; end -= kRows) {
      const int64_t first = end > kRows ? end - kRows : 0, count = end - first;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = first + i;
        weight[i] = s[at * heads] - lse[at * heads];
        decay[i] = at + 1 < span.rows ? lse[at * heads] - lse[(at + 1) * heads] : 0;
        means[i] = dots[i] = 0;
      }
      for (int64_t i = count; i % kLanes; ++i) weight[i] = decay[i] = 0;
      exponentials(weight, count);
      exponentials(decay, count);
      each_tile(
          C, [&]<int R>(int64_t c, auto lanes) __attribute__((always_inline)) {
            Vec sum_of[R];
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) sum_of[r] = load(sums + c + r * kLanes, lanes);
            for (int64_t i = count; i-- > 0;) {
              const float w = weight[i], f = decay[i];
              Vec by_out{}, by_v{};
#pragma GCC unroll 8
              for (int r = 0; r < R; ++r) {
                const int64_t at = start + (first + i) * row + c + r * kLanes, later = at - kAhead * row;
                __builtin_prefetch(dout + later);
                __builtin_prefetch(out + later);
                const Vec d = load(dout + at, lanes);
                sum_of[r] = sum_of[r] * f + d;
                by_out += d * load(out + at, lanes);
                if constexpr (causal) {
                  __builtin_prefetch(v + later);
                  by_v += sum_of[r] * load(v + at, lanes);
                  put_dv(at, w * sum_of[r], lanes);
                }
              }
              means[i] += sum(by_out);
              if constexpr (causal) dots[i] += sum(by_v);
            }
#pragma GCC unroll 8
            for (int r = 0; r < R; ++r) store(sums + c + r * kLanes, sum_of[r], lanes);
          });
      for (int64_t i = count; i-- > 0;) {
        mean = mean * decay[i] + means[i];
        if (causal) put_ds(first + i, weight[i] * (dots[i] - mean));
      }
    }
    if (causal) return;
    for (int64_t first = 0; first < span.rows; first += kRows) {
      const int64_t count = span.rows - first < kRows ? span.rows - first : kRows;
      for (int64_t i = 0; i < count; ++i) weight[i] = s[(first + i) * heads] - lse[(first + i) * heads];
      for (int64_t i = count; i % kLanes; ++i) weight[i] = 0;
      exponentials(weight, count);
      for (int64_t i = 0; i < count; ++i) {
        const float w = weight[i];
        const int64_t at = start + (first + i) * row;
        const float dot = sum(total(
            C, [=](int64_t c, auto lanes) __attribute__((always_inline)) {
              const Vec r = load(sums + c, lanes);
              put_dv(at + c, w * r, lanes);
              return r * load(v + at + c, lanes);
            }));
        put_ds(first + i, w * (dot - mean));
      }
    }
  });
}

}  // namespace

void cumulative_softmax(const CumulativeTask& task) {
  by_type(task.args->v.dtype(),
          [&]<class T>() { by_flag(task.args->causal, [&]<bool causal>() { run<T, causal>(task); }); });
}
void cumulative_softmax_grad(const CumulativeTask& task) {
  by_type(task.args->v.dtype(),
          [&]<class T>() { by_flag(task.args->causal, [&]<bool causal>() { run_grad<T, causal>(task); }); });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
