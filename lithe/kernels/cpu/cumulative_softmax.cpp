// The sums run along the rows with the channels in the lanes; exponentials are made a block of rows at a time.
#include "lithe/kernels/cpu/cumulative.h"
#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

constexpr int64_t kRows = 64;  // rows of a block; a multiple of kLanes

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

/// For rows [0, count): weight[i] = e^(s[i] - m[i]), shrink[i] = e^(m[i-1] - m[i]), m the running maximum; top[i] =
/// m[i].
[[gnu::always_inline]] inline void weigh(const float* s, int64_t stride, int64_t count, float maximum, float* weight,
                                         float* shrink, float* top) {
  for (int64_t i = 0; i < count; ++i) {
    const float x = s[i * stride], now = x > maximum ? x : maximum;
    weight[i] = x - now;
    shrink[i] = maximum - now;
    top[i] = maximum = now;
  }
  for (int64_t i = count; i % kLanes; ++i) weight[i] = shrink[i] = 0;
  exponentials(weight, count);
  exponentials(shrink, count);
}

template <class T>
void run(const CumulativeTask& task) {
  const CumulativeSoftmaxArgs& a = *task.args;
  const int64_t heads = cols_of(a.s), C = cols_of(a.v) / heads, row = heads * C;
  const bool causal = a.causal;
  const float* all_s = pointer<const float>(a.s);
  const T* all_v = pointer<const T>(a.v);
  T* all_out = pointer<T>(a.out);
  float* all_lse = pointer<float>(a.lse);
  each_head(task, heads, C, 2 * int64_t(sizeof(T)), [=](const CumulativeSpan& span, int64_t head, float* numerator) {
    const float* s = all_s + span.row * heads + head;
    const T* v = all_v + span.row * row + head * C;
    T* out = all_out + span.row * row + head * C;
    float* lse = all_lse ? all_lse + span.row * heads + head : nullptr;
    float* state = span.state ? span.state + head * (C + 2) : nullptr;
    Running now{-__builtin_inff(), 0};
    each(C, [&](int64_t c, auto lanes) { store(numerator + c, state ? load(state + c, lanes) : Vec{}, lanes); });
    if (state && state[C + 1] > 0) now = {state[C], state[C + 1]};
    alignas(64) float weight[kRows], shrink[kRows], top[kRows];
    for (int64_t first = 0; first < span.rows; first += kRows) {
      const int64_t count = span.rows - first < kRows ? span.rows - first : kRows;
      weigh(s + first * heads, heads, count, now.maximum, weight, shrink, top);
      for (int64_t i = 0; i < count; ++i) {
        const T* x = v + (first + i) * row;
        T* y = out + (first + i) * row;
        now = {top[i], now.denominator * shrink[i] + weight[i]};
        const float w = weight[i], f = shrink[i], inverse = 1 / now.denominator;
        each(C, [&](int64_t c, auto lanes) {
          const Vec sum = load(numerator + c, lanes) * f + w * load(x + c, lanes);
          store(numerator + c, sum, lanes);
          if (causal) store(y + c, sum * inverse, lanes);
        });
        if (causal && lse) lse[(first + i) * heads] = now.maximum + __builtin_logf(now.denominator);
      }
    }
    if (!causal) {
      const float inverse = 1 / now.denominator, log = now.maximum + __builtin_logf(now.denominator);
      for (int64_t i = 0; i < span.rows; ++i) {
        each(C, [&](int64_t c, auto lanes) { store(out + i * row + c, load(numerator + c, lanes) * inverse, lanes); });
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
template <class T>
void run_grad(const CumulativeTask& task) {
  const CumulativeSoftmaxGradArgs& g = *task.grad_args;
  const CumulativeSoftmaxArgs& a = g.forward;
  const int64_t heads = cols_of(a.s), C = cols_of(a.v) / heads, row = heads * C;
  const bool causal = a.causal, add_ds = g.accumulate_ds, add_dv = g.accumulate_dv;
  const float *all_s = pointer<const float>(a.s), *all_lse = pointer<const float>(a.lse);
  const T *all_v = pointer<const T>(a.v), *all_out = pointer<const T>(a.out), *all_dout = pointer<const T>(g.dout);
  float* all_ds = pointer<float>(g.ds);
  T* all_dv = pointer<T>(g.dv);
  each_head(task, heads, C, 4 * int64_t(sizeof(T)), [=](const CumulativeSpan& span, int64_t head, float* R) {
    const float *s = all_s + span.row * heads + head, *lse = all_lse + span.row * heads + head;
    const T *v = all_v + span.row * row + head * C, *out = all_out + span.row * row + head * C,
            *dout = all_dout + span.row * row + head * C;
    float* ds = all_ds + span.row * heads + head;
    T* dv = all_dv + span.row * row + head * C;
    alignas(64) float weight[kRows], decay[kRows];
    float mean = 0;  // the sum of dout . out
    each(C, [&](int64_t c, auto lanes) { store(R + c, Vec{}, lanes); });
    const auto write = [&](int64_t i, float w) __attribute__((always_inline)) {
      const float dot = sum(total(
          C, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
            const Vec r = load(R + c, lanes);
            T* to = dv + i * row + c;
            store(to, w * r + (add_dv ? load(to, lanes) : Vec{}), lanes);
            return r * load(v + i * row + c, lanes);
          }));
      const float d = w * (dot - mean);
      ds[i * heads] = add_ds ? ds[i * heads] + d : d;
    };
    for (int64_t end = span.rows; end > 0; end -= kRows) {
      const int64_t first = end > kRows ? end - kRows : 0, count = end - first;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t at = first + i;
        weight[i] = s[at * heads] - lse[at * heads];
        decay[i] = at + 1 < span.rows ? lse[at * heads] - lse[(at + 1) * heads] : 0;
      }
      for (int64_t i = count; i % kLanes; ++i) weight[i] = decay[i] = 0;
      exponentials(weight, count);
      exponentials(decay, count);
      for (int64_t i = count; i-- > 0;) {
        const int64_t at = (first + i) * row;
        const float f = decay[i];
        mean = mean * f + sum(total(
                              C, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
                                const Vec d = load(dout + at + c, lanes);
                                store(R + c, load(R + c, lanes) * f + d, lanes);
                                return d * load(out + at + c, lanes);
                              }));
        if (causal) write(first + i, weight[i]);
      }
    }
    if (causal) return;
    for (int64_t first = 0; first < span.rows; first += kRows) {
      const int64_t count = span.rows - first < kRows ? span.rows - first : kRows;
      for (int64_t i = 0; i < count; ++i) weight[i] = s[(first + i) * heads] - lse[(first + i) * heads];
      for (int64_t i = count; i % kLanes; ++i) weight[i] = 0;
      exponentials(weight, count);
      for (int64_t i = 0; i < count; ++i) write(first + i, weight[i]);
    }
  });
}

}  // namespace

void cumulative_softmax(const CumulativeTask& task) {
  by_type(task.args->v.dtype(), [&]<class T>() { run<T>(task); });
}
void cumulative_softmax_grad(const CumulativeTask& task) {
  by_type(task.args->v.dtype(), [&]<class T>() { run_grad<T>(task); });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
