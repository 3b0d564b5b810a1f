// One walk through a row for its maximum and the sum of its exponentials, by blocks that stay in the first
// cache, and one for the result; see ref/cross_entropy.h for the formulas.
#include "lithe/kernels/cross_entropy.h"

#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

constexpr int64_t kBlock = 2048;
constexpr float kLowest = -__builtin_inff();

/// top = max scale x, exponentials = sum exp(scale x - top), plain = sum scale x (when wanted) of a row. A row
/// of -inf has top 0 and exponentials 0; a NaN anywhere makes exponentials NaN.
struct RowSums {
  float top = kLowest, exponentials = 0, plain = 0;
};

template <bool with_plain, class T>
[[gnu::always_inline]] inline RowSums sums_of(const T* x, int64_t C, float scale) {
  RowSums row;
  for (int64_t begin = 0; begin < C; begin += kBlock) {
    const T* block = x + begin;
    const int64_t count = C - begin < kBlock ? C - begin : kBlock;
    Vec tops = splat(kLowest), other_tops = tops, sums{};
    int64_t c = 0;
    for (; c + 2 * kLanes <= count; c += 2 * kLanes) {
      const Vec v = load(block + c) * scale, w = load(block + c + kLanes) * scale;
      tops = max(v, tops);
      other_tops = max(w, other_tops);
      if constexpr (with_plain) sums += v + w;
    }
    each(count - c, [&](int64_t at, auto lanes) {
      const Vec v = load(block + c + at, lanes) * scale;
      tops = max(keep(v, lanes, kLowest), tops);
      if constexpr (with_plain) sums += v;
    });
    const float top = max(max(tops, other_tops)), raised = top > row.top ? top : row.top;
    const float shift = raised == kLowest ? 0 : raised;  // -inf - -inf would be NaN
    if (raised > row.top) row.exponentials *= __builtin_expf(row.top - raised);
    row.top = raised;
    row.exponentials +=
        sum(total(count, [=](int64_t at, auto lanes) { return exp(load(block + at, lanes) * scale - shift); }));
    if constexpr (with_plain) row.plain += sum(sums);
  }
  if (row.top == kLowest) row.top = 0;
  return row;
}

template <class T, bool smooth>
void cross_entropy_of(const CrossEntropyArgs& a) {
  const int64_t N = rows_of(a.logits), V = cols_of(a.logits);
  T* logits = pointer<T>(a.logits);
  const int32_t* labels = pointer<int32_t>(a.labels);
  float *losses = pointer<float>(a.losses), *nll = pointer<float>(a.nll);
  const bool gradient = a.gradient;
  const double smoothing = a.smoothing, each_share = a.smoothing / double(V), gradient_scale = a.gradient_scale;
  parallel(N, grain_of_rows(2 * V * int64_t(sizeof(T))), [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t n = begin; n < end; ++n) {
      T* x = logits + n * V;
      const int32_t label = labels[n];
      if (label < 0) {
        losses[n] = 0;
        if (nll) nll[n] = 0;
        if (gradient) __builtin_memset(static_cast<void*>(x), 0, size_t(V) * sizeof(T));
        continue;
      }
      const RowSums row = sums_of<smooth>(x, V, 1.0f);
      const double log_sum = __builtin_log(double(row.exponentials)), at_label = load(x + label, First{1})[0];
      const double plain = log_sum + (double(row.top) - at_label);
      losses[n] =
          float(smooth ? (1 - smoothing) * plain + smoothing * (log_sum + row.top) - each_share * row.plain : plain);
      if (nll) nll[n] = float(plain);
      if (!gradient) continue;
      const float factor = float(gradient_scale / row.exponentials), taken = float(gradient_scale * each_share),
                  top = row.top;
      each(V, [=](int64_t v, auto lanes) { store(x + v, exp(load(x + v, lanes) - top) * factor - taken, lanes); });
      const double p = __builtin_exp(-plain);
      store(x + label, splat(float(gradient_scale * (p - each_share - (1 - smoothing)))), First{1});
    }
  });
}

template <class T>
void softmax_of(const SoftmaxArgs& a) {
  const int64_t N = rows_of(a.x), C = cols_of(a.x);
  const T* from = pointer<T>(a.x);
  T* to = pointer<T>(a.y);
  const float scale = float(a.scale);
  const bool log = a.log;
  parallel(N, grain_of_rows(2 * C * int64_t(sizeof(T))), [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t n = begin; n < end; ++n) {
      const T* x = from + n * C;
      T* y = to + n * C;
      const RowSums row = sums_of<false>(x, C, scale);
      const float top = row.top;
      if (log) {
        const float log_sum = row.exponentials == 0 ? 0 : __builtin_logf(row.exponentials);
        each(C, [=](int64_t c, auto lanes) { store(y + c, (load(x + c, lanes) * scale - top) - log_sum, lanes); });
      } else {
        const float factor = row.exponentials == 0 ? 0 : 1 / row.exponentials;
        each(C, [=](int64_t c, auto lanes) { store(y + c, exp(load(x + c, lanes) * scale - top) * factor, lanes); });
      }
    }
  });
}

}  // namespace

void cross_entropy(const CrossEntropyArgs& a) {
  by_type(a.logits.dtype(),
          [&]<class T>() { by_flag(a.smoothing > 0, [&]<bool smooth>() { cross_entropy_of<T, smooth>(a); }); });
}

void softmax(const SoftmaxArgs& a) {
  by_type(a.x.dtype(), [&]<class T>() { softmax_of<T>(a); });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
