// A row is read from memory once, for its maximum. Its exponentials are made once, kept in f32 where the second cache
// has them still for the result, and meanwhile the next row is asked for; see reference.h for the formulas.
#include "lithe/kernels/cross_entropy/cross_entropy.h"

#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"
#include "lithe/kernels/cpu/written.h"
#include "lithe/kernels/cross_entropy/cpu.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

constexpr int64_t kBlock = 2048;  // exponentials that are added up before their sum joins that of the row
constexpr float kLowest = -__builtin_inff();

/// e^x for x <= 0 or NaN: exp_nonpositive(), or for results in bf16 a shorter form of it within 2^-19.
template <class T>
[[gnu::always_inline]] inline Vec exponential(Vec x) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 2) {
    x = max(splat(-104.0f), x);
    const Vec magic = splat(0x1.8p19f), near = x * 1.44269502f + magic;
    const Vec n = near - magic, f = x * 1.44269502f - n, p = f * 0.240234284f + 0.693187833f;
    const Vec root = _mm512_permutexvar_ps((__m512i)as_ints(near), load(kRoots));
    return _mm512_scalef_ps(root * f * p + root, n);
  }
#endif
  return exp_nonpositive(x);
}

/// top = max scale x, exponentials = sum exp(scale x - top), plain = sum scale x (when wanted) of a row. A row
/// of -inf has top 0 and exponentials 0; a NaN anywhere makes exponentials NaN.
struct RowSums {
  float top = kLowest, exponentials = 0, plain = 0;
};

/// Leaves exp(scale x - top) in `kept`, unless it is null; it may be x.
template <bool with_plain, bool scaled, class T>
[[gnu::always_inline]] inline RowSums sums_of(const T* x, int64_t C, float scale, float* kept) {
  const auto at = [=](int64_t c, auto lanes) __attribute__((always_inline)) {
    const Vec v = load(x + c, lanes);
    return scaled ? v * scale : v;
  };
  RowSums row;
  Vec tops[4] = {splat(kLowest), splat(kLowest), splat(kLowest), splat(kLowest)}, sums[4] = {};
  int64_t c = 0;
  for (; c + 4 * kLanes <= C; c += 4 * kLanes)
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const Vec v = at(c + i * kLanes, All{});
      tops[i] = max(v, tops[i]);
      if constexpr (with_plain) sums[i] += v;
    }
  each(C - c, [&](int64_t rest, auto lanes) {
    const Vec v = at(c + rest, lanes);
    tops[0] = max(keep(v, lanes, kLowest), tops[0]);
    if constexpr (with_plain) sums[0] += v;
  });
  const float top = max(max(max(tops[0], tops[1]), max(tops[2], tops[3])));
  row.top = top == kLowest ? 0 : top;  // -inf - -inf would be NaN
  row.plain = sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
  const float shift = row.top;
  for (int64_t begin = 0; begin < C; begin += kBlock)
    row.exponentials += sum(total(
        C - begin < kBlock ? C - begin : kBlock, [=](int64_t i, auto lanes) __attribute__((always_inline)) {
          __builtin_prefetch(x + C + begin + i);
          // The product is rounded in the maximum but not in here.
          const Vec z = at(begin + i, lanes) - shift, e = exponential<T>(scaled ? min(Vec{}, z) : z);
          if (kept) store(kept + begin + i, e, lanes);
          return e;
        }));
  return row;
}

/// Where the exponentials of a row are kept: in the result if that holds f32, else in `row`.
[[gnu::always_inline]] inline float* place(float* out, float*) { return out; }
[[gnu::always_inline]] inline float* place(bf16*, float* row) { return row; }

template <class T, bool smooth>
void cross_entropy_of(const CrossEntropyTask& task) {
  const CrossEntropyArgs& a = task.args;
  const int64_t N = rows_of(a.logits), V = cols_of(a.logits);
  T* logits = pointer<T>(a.logits);
  const int32_t* labels = pointer<int32_t>(a.labels);
  float *losses = pointer<float>(a.losses), *nll = pointer<float>(a.nll);
  const bool gradient = a.gradient;
  float* rows = task.row;
  const double smoothing = a.smoothing, each_share = a.smoothing / double(V), gradient_scale = a.gradient_scale;
  parallel(N, grain_of_rows(2 * V * int64_t(sizeof(T))), [=](int64_t begin, int64_t end, int64_t part) {
    for (int64_t n = begin; n < end; ++n) {
      T* x = logits + n * V;
      const int32_t label = labels[n];
      if (label < 0) {
        losses[n] = 0;
        if (nll) nll[n] = 0;
        if (gradient) __builtin_memset(static_cast<void*>(x), 0, size_t(V) * sizeof(T));
        continue;
      }
      const double at_label = load(x + label, First{1})[0];
      float* kept = gradient ? place(x, rows + part * V) : nullptr;
      const RowSums row = sums_of<smooth, false>(x, V, 1, kept);
      const double log_sum = __builtin_log(double(row.exponentials));
      const double plain = log_sum + (double(row.top) - at_label);
      losses[n] =
          float(smooth ? (1 - smoothing) * plain + smoothing * (log_sum + row.top) - each_share * row.plain : plain);
      if (nll) nll[n] = float(plain);
      if (!gradient) continue;
      const float factor = float(gradient_scale / row.exponentials), taken = float(gradient_scale * each_share);
      each(V, [=](int64_t v, auto lanes) { store(x + v, load(kept + v, lanes) * factor - taken, lanes); });
      const double p = __builtin_exp(-plain);
      store(x + label, splat(float(gradient_scale * (p - each_share - (1 - smoothing)))), First{1});
    }
  });
}

template <class T, bool scaled>
void softmax_of(const SoftmaxTask& task) {
  const SoftmaxArgs& a = task.args;
  const int64_t N = rows_of(a.x), C = cols_of(a.x);
  const T* from = pointer<T>(a.x);
  const Written<T> y = written<T>(a.y, C);
  const float scale = float(a.scale);
  const bool log = a.log;
  float* rows = task.row;
  parallel(N, grain_of_rows(2 * C * int64_t(sizeof(T))), [=](int64_t begin, int64_t end, int64_t part) {
    float* kept = log ? nullptr : rows + part * C;
    for (int64_t n = begin; n < end; ++n) {
      const T* x = from + n * C;
      const RowSums row = sums_of<false, scaled>(x, C, scale, kept);
      const float top = row.top;
      if (log) {
        const float log_sum = row.exponentials == 0 ? 0 : __builtin_logf(row.exponentials);
        each(C, [=](int64_t c, auto lanes) {
          const Vec v = load(x + c, lanes);
          y(n * C + c, ((scaled ? v * scale : v) - top) - log_sum, lanes);
        });
      } else {
        const float factor = row.exponentials == 0 ? 0 : 1 / row.exponentials;
        each(C, [=](int64_t c, auto lanes) { y(n * C + c, load(kept + c, lanes) * factor, lanes); });
      }
    }
  });
}

}  // namespace

void cross_entropy(const CrossEntropyTask& task) {
  by_type(task.args.logits.dtype(), [&]<class T>() {
    by_flag(task.args.smoothing > 0, [&]<bool smooth>() { cross_entropy_of<T, smooth>(task); });
  });
}

void softmax(const SoftmaxTask& task) {
  by_type(task.args.x.dtype(),
          [&]<class T>() { by_flag(task.args.scale != 1, [&]<bool scaled>() { softmax_of<T, scaled>(task); }); });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
