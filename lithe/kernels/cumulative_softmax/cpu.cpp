// The sums run along the rows with the channels in the lanes. A block of rows at a time, head after head, has its
// exponentials made and then passes through registers that hold the sums of a tile of channels, while later rows are
// asked for: rows of one head are far apart in memory, where no hardware would foresee them.
#include "lithe/kernels/cumulative_softmax/cpu.h"
#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"
#include "lithe/kernels/cpu/written.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

constexpr int64_t kRows = 64;  // rows of a block; a multiple of kLanes
constexpr int64_t kAhead = 8;  // rows from the one in work to what is asked for
constexpr int kTile = 8;       // vectors of channels in registers

/// Calls f.operator()<R>(c, lanes) for R vectors of channels from c on, R a power of two, so that [c, C) is covered.
template <int R = kTile, class F>
[[gnu::always_inline]] inline void each_tile(int64_t C, F&& f, int64_t c = 0) {
  for (; c + R * kLanes <= C; c += R * kLanes) f.template operator()<R>(c, All{});
  if constexpr (R > 1)
    each_tile<R / 2>(C, f, c);
  else if (c < C)
    f.template operator()<1>(c, First{int(C - c)});
}

/// Calls f(span, begin, end, space) for the heads [begin, end) of a span, so that all heads of all spans are covered.
/// Head h has `width` numbers from space + h width on.
template <class F>
[[gnu::always_inline]] inline void each_span(const CumulativeTask& task, int64_t heads, int64_t width, int64_t bytes,
                                             F&& f) {
  const int64_t count = task.count * heads;
  if (count == 0) return;
  parallel(count, grain_of_rows(task.rows * heads * width * bytes / count),
           [=](int64_t begin, int64_t end, int64_t part) {
             for (int64_t i = begin, next; i < end; i = next) {
               next = (i / heads + 1) * heads < end ? (i / heads + 1) * heads : end;
               f(task.spans[i / heads], i % heads, i % heads + next - i, task.space + part * 2 * heads * width);
             }
           });
}

[[gnu::always_inline]] inline void exponentials(float* x, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) store(x + i, exp(load(x + i)));
}

/// Of each row i of a block, m the running maximum: weight e^(s[i] - m[i]), shrink e^(m[i-1] - m[i]), and the
/// denominator after it.
struct Block {
  int64_t rows;
  alignas(64) float weight[kRows], shrink[kRows], maximum[kRows], denominator[kRows], inverse[kRows];
};

[[gnu::always_inline]] inline void weigh(Block& b, const float* s, int64_t stride, float& maximum, float& denominator) {
  for (int64_t i = 0; i < b.rows; ++i) {
    const float x = s[i * stride], before = maximum;
    maximum = x > before ? x : before;
    b.weight[i] = x - maximum;
    b.shrink[i] = before - maximum;
    b.maximum[i] = maximum;
  }
  for (int64_t i = b.rows; i % kLanes; ++i) b.weight[i] = b.shrink[i] = 0, b.denominator[i] = 1;
  exponentials(b.weight, b.rows);
  exponentials(b.shrink, b.rows);
  for (int64_t i = 0; i < b.rows; ++i) b.denominator[i] = denominator = denominator * b.shrink[i] + b.weight[i];
  for (int64_t i = 0; i < b.rows; i += kLanes) store(b.inverse + i, 1.0f / load(b.denominator + i));
}

template <class T, bool causal>
void run(const CumulativeTask& task) {
  const CumulativeSoftmaxArgs& a = *task.args;
  const int64_t heads = cols_of(a.s), C = cols_of(a.v) / heads, row = heads * C;
  const float* s = pointer<const float>(a.s);
  const T* v = pointer<const T>(a.v);
  const Written<T> out = written<T>(a.out, C);
  float* lse = pointer<float>(a.lse);
  const int64_t width = C + 2;  // the sums of a head are laid out as its state
  each_span(task, heads, width, 2 * int64_t(sizeof(T)),
            [=](const CumulativeSpan& span, int64_t begin, int64_t end, float* space) {
              const int64_t start = span.row * heads;  // times C: the first element
              for (int64_t head = begin; head < end; ++head) {
                float* sums = space + head * width;
                const float* state = span.state ? span.state + head * width : nullptr;
                each(C, [=](int64_t c, auto lanes) { store(sums + c, state ? load(state + c, lanes) : Vec{}, lanes); });
                const bool past = state && state[C + 1] > 0;
                sums[C] = past ? state[C] : -__builtin_inff();
                sums[C + 1] = past ? state[C + 1] : 0;
              }
              Block b;
              for (int64_t first = 0; first < span.rows; first += kRows) {
                b.rows = span.rows - first < kRows ? span.rows - first : kRows;
                for (int64_t head = begin; head < end; ++head) {
                  float* sums = space + head * width;
                  const int64_t from = start + first * heads + head;
                  weigh(b, s + from, heads, sums[C], sums[C + 1]);
                  each_tile(
                      C, [&]<int R>(int64_t c, auto lanes) __attribute__((always_inline)) {
                        Vec sum_of[R];
#pragma GCC unroll 8
                        for (int r = 0; r < R; ++r) sum_of[r] = load(sums + c + r * kLanes, lanes);
                        int64_t at = from * C + c;
                        for (int64_t i = 0; i < b.rows; ++i, at += row) {
                          const float w = b.weight[i], f = b.shrink[i], inverse = b.inverse[i];
#pragma GCC unroll 8
                          for (int r = 0; r < R; ++r) {
                            const T* x = v + at + r * kLanes;
                            __builtin_prefetch(x + kAhead * row);
                            sum_of[r] = sum_of[r] * f + w * load(x, lanes);
                            if constexpr (causal) out(at + r * kLanes, sum_of[r] * inverse, lanes);
                          }
                        }
#pragma GCC unroll 8
                        for (int r = 0; r < R; ++r) store(sums + c + r * kLanes, sum_of[r], lanes);
                      });
                  if (causal && lse)
                    for (int64_t i = 0; i < b.rows; ++i)
                      lse[from + i * heads] = b.maximum[i] + __builtin_logf(b.denominator[i]);
                }
              }
              for (int64_t head = begin; head < end; ++head) {
                const float* sums = space + head * width;
                if (!causal) {
                  const float inverse = 1 / sums[C + 1], log = sums[C] + __builtin_logf(sums[C + 1]);
                  for (int64_t i = 0; i < span.rows; ++i) {
                    const int64_t at = start + i * heads + head;
                    each(C, [=](int64_t c, auto lanes) { out(at * C + c, load(sums + c, lanes) * inverse, lanes); });
                    if (lse) lse[at] = log;
                  }
                }
                if (span.state)
                  each(width, [=](int64_t c, auto lanes) {
                    store(span.state + head * width + c, load(sums + c, lanes), lanes);
                  });
              }
            });
}

// Rows from last to first: R = sum_i e^(lse_j - lse_i) dout_i in `space`, then the same sum of dout_i . out_i.
template <class T, bool causal>
void run_grad(const CumulativeTask& task) {
  const CumulativeSoftmaxGradArgs& g = *task.grad_args;
  const CumulativeSoftmaxArgs& a = g.forward;
  const int64_t heads = cols_of(a.s), C = cols_of(a.v) / heads, row = heads * C;
  const bool add_ds = g.accumulate_ds, add_dv = g.accumulate_dv;
  const float *s = pointer<const float>(a.s), *lse = pointer<const float>(a.lse);
  const T *v = pointer<const T>(a.v), *out = pointer<const T>(a.out), *dout = pointer<const T>(g.dout);
  float* ds = pointer<float>(g.ds);
  const Written<T> dv = written<T>(g.dv, C);
  const int64_t width = C + 1;
  each_span(task, heads, width, 4 * int64_t(sizeof(T)),
            [=](const CumulativeSpan& span, int64_t begin, int64_t end, float* space) {
              alignas(64) float weight[kRows], decay[kRows], means[kRows], dots[kRows];
              for (int64_t i = begin * width; i < end * width; ++i) space[i] = 0;
              const auto put_ds = [=](int64_t at, float d) { ds[at] = add_ds ? ds[at] + d : d; };
              const auto put_dv = [=](int64_t at, Vec d, auto lanes) __attribute__((always_inline)) {
                if (add_dv)
                  put<true>(dv, at, d, lanes);
                else
                  put<false>(dv, at, d, lanes);
              };
              for (int64_t stop = span.rows; stop > 0; stop -= kRows) {
                const int64_t first = stop > kRows ? stop - kRows : 0, count = stop - first;
                for (int64_t head = begin; head < end; ++head) {
                  float* sums = space + head * width;
                  const int64_t from = (span.row + first) * heads + head;
                  for (int64_t i = 0; i < count; ++i) {
                    const int64_t at = from + i * heads;
                    weight[i] = s[at] - lse[at];
                    decay[i] = first + i + 1 < span.rows ? lse[at] - lse[at + heads] : 0;
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
                            const int64_t at = from * C + i * row + c + r * kLanes, later = at - kAhead * row;
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
                    sums[C] = sums[C] * decay[i] + means[i];
                    if (causal) put_ds(from + i * heads, weight[i] * (dots[i] - sums[C]));
                  }
                }
              }
              if (causal) return;
              for (int64_t first = 0; first < span.rows; first += kRows) {
                const int64_t count = span.rows - first < kRows ? span.rows - first : kRows;
                for (int64_t head = begin; head < end; ++head) {
                  const float* sums = space + head * width;
                  const int64_t from = (span.row + first) * heads + head;
                  for (int64_t i = 0; i < count; ++i) weight[i] = s[from + i * heads] - lse[from + i * heads];
                  for (int64_t i = count; i % kLanes; ++i) weight[i] = 0;
                  exponentials(weight, count);
                  for (int64_t i = 0; i < count; ++i) {
                    const float w = weight[i];
                    const int64_t at = from * C + i * row;
                    const float dot = sum(total(
                        C, [=](int64_t c, auto lanes) __attribute__((always_inline)) {
                          const Vec r = load(sums + c, lanes);
                          put_dv(at + c, w * r, lanes);
                          return r * load(v + at + c, lanes);
                        }));
                    put_ds(from + i * heads, w * (dot - sums[C]));
                  }
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
