// Rows stay in the first cache between the passes over them, which ask for later rows; see reference.h for the
// formulas.
#include "lithe/kernels/norm/norm.h"

#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"
#include "lithe/kernels/cpu/written.h"
#include "lithe/kernels/norm/cpu.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

template <class T, NormKind kind>
void norm_of(const NormArgs& a) {
  constexpr bool centred = kind != NormKind::rms;
  const int64_t rows = rows_of(a.x), C = cols_of(a.x);
  const T *x = pointer<T>(a.x), *residual = pointer<T>(a.residual);
  T* sum_out = pointer<T>(a.sum);
  const Written<T> y = written<T>(a.y, C);
  const float *weight = pointer<float>(a.weight), *bias = pointer<float>(a.bias);
  float *means = pointer<float>(a.mean), *scales = pointer<float>(a.scale);
  const float eps = float(a.eps), inverse = 1.0f / float(C);
  parallel(rows, grain_of_rows((residual ? 4 : 2) * C * int64_t(sizeof(T))), [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t n = begin; n < end; ++n) {
      const T* z = x + n * C;
      if (residual) {
        T* s = sum_out + n * C;
        each(C, [=](int64_t c, auto lanes) {
          store(s + c, load(z + c, lanes) + load(residual + n * C + c, lanes), lanes);
        });
        z = s;
      }
      float mean = 0;
      if constexpr (centred) mean = sum(total(C, [=](int64_t c, auto lanes) { return load(z + c, lanes); })) * inverse;
      const float square = inverse * sum(total(C, [=](int64_t c, auto lanes) {
                             const Vec h = load(z + c, lanes) - mean;
                             return h * h;
                           }));
      const float scale =
          kind == NormKind::layer_sigma ? 1.0f / (__builtin_sqrtf(square) + eps) : 1.0f / __builtin_sqrtf(square + eps);
      const T *next = x + (n + 1) * C, *next_residual = residual ? residual + (n + 1) * C : next;
      const auto scaled = [=](int64_t c, auto lanes) __attribute__((always_inline)) {
        __builtin_prefetch(next + c);
        __builtin_prefetch(next_residual + c);
        return (load(z + c, lanes) - mean) * scale * load(weight + c, lanes);
      };
      if (bias)
        each(C, [=](int64_t c, auto lanes) { y(n * C + c, scaled(c, lanes) + load(bias + c, lanes), lanes); });
      else
        each(C, [=](int64_t c, auto lanes) { y(n * C + c, scaled(c, lanes), lanes); });
      if (centred && means) means[n] = mean;
      if (scales) scales[n] = scale;
    }
  });
}

/// What the gradients of rows need beside the rows. dx absent: `data` is null. `products` and `sums` receive the sums
/// over rows of dy h scale and of dy, unless they are null.
template <class T>
struct GradientRows {
  int64_t C;
  const T *x, *dy;
  Written<T> dx;
  const float *weight, *means, *scales;
  float *products, *sums;
};

/// Rows [n, n + R), R = 1 where they come from memory: both passes then ask for the next row. With g = weight dy and h
/// = x - mean it makes the sums of g, g h and h^2.
template <int R, NormKind kind, bool accumulate, class T>
[[gnu::always_inline]] inline void gradient_rows(const GradientRows<T>& a, int64_t n) {
  constexpr bool centred = kind != NormKind::rms;
  const int64_t C = a.C;
  const T *x = a.x + n * C, *dy = a.dy + n * C;
  const float* weight = a.weight;
  float *products = a.products, *sums = a.sums, mean[R], scale[R];
  for (int r = 0; r < R; ++r) {
    mean[r] = centred ? a.means[n + r] : 0;
    scale[r] = a.scales[n + r];
  }
  Vec g_sum[R] = {}, dot[R] = {}, squares[R] = {};
  each(
      C, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
        const Vec w = load(weight + c, lanes);
        Vec product{}, plain{};
#pragma GCC unroll 2
        for (int r = 0; r < R; ++r) {
          if constexpr (R == 1) __builtin_prefetch(x + C + c);
          const Vec d = load(dy + r * C + c, lanes), h = keep(load(x + r * C + c, lanes) - mean[r], lanes), g = d * w;
          if constexpr (centred) g_sum[r] += g;
          dot[r] += g * h;
          if constexpr (kind == NormKind::layer_sigma) squares[r] += h * h;
          product += d * h * scale[r];
          plain += d;
        }
        if (products) store(products + c, load(products + c, lanes) + product, lanes);
        if (sums) store(sums + c, load(sums + c, lanes) + plain, lanes);
      });
  if (!a.dx.data) return;
  const float inverse = 1.0f / float(C);
  for (int r = 0; r < R; ++r) {
    const float own_mean = mean[r], own_scale = scale[r];
    float k = own_scale * own_scale * own_scale;
    if constexpr (kind == NormKind::layer_sigma) {
      const float sigma = __builtin_sqrtf(sum(squares[r]) * inverse);
      k = sigma > 0 ? own_scale * own_scale / sigma : 0;
    }
    const float mean_g = centred ? sum(g_sum[r]) * inverse : 0, k_dot = k * sum(dot[r]) * inverse;
    const T *x_row = x + r * C, *dy_row = dy + r * C;
    const int64_t first = (n + r) * C;
    const Written<T> dx = a.dx;
    each(C, [=](int64_t c, auto lanes) {
      if constexpr (R > 1) __builtin_prefetch(x_row + R * C + c);
      __builtin_prefetch(dy_row + R * C + c);
      const Vec g = load(dy_row + c, lanes) * load(weight + c, lanes), h = load(x_row + c, lanes) - own_mean;
      put<accumulate>(dx, first + c, own_scale * (g - mean_g) - k_dot * h, lanes);
    });
  }
}

template <class T, NormKind kind, bool accumulate>
void norm_grad_of(const NormGradTask& task) {
  const NormGradArgs& a = task.args;
  const int64_t rows = rows_of(a.x), C = cols_of(a.x);
  const GradientRows<T> all{C,
                            pointer<T>(a.x),
                            pointer<T>(a.dy),
                            a.dx ? written<T>(a.dx, C) : Written<T>{},
                            pointer<float>(a.weight),
                            pointer<float>(a.mean),
                            pointer<float>(a.scale),
                            nullptr,
                            nullptr};
  float *dweight = pointer<float>(a.dweight), *dbias = pointer<float>(a.dbias), *partial = task.partial;
  const int64_t grain = grain_of_rows(3 * C * int64_t(sizeof(T)));
  parallel(rows, grain, [=](int64_t begin, int64_t end, int64_t part) {
    GradientRows<T> own = all;
    if (partial) {
      float* products = partial + 2 * part * C;
      __builtin_memset(products, 0, size_t(2 * C) * sizeof(float));
      if (dweight) own.products = products;
      if (dbias) own.sums = products + C;
    }
    int64_t n = begin;
    // Two rows at a time load the sums over rows once, but from memory one at a time is sooner.
    for (const int64_t pairs = own.dx.around ? begin : end - 1; n < pairs; n += 2)
      gradient_rows<2, kind, accumulate>(own, n);
    for (; n < end; ++n) gradient_rows<1, kind, accumulate>(own, n);
  });
  for (int64_t part = 0, parts = rows && partial ? parts_of(rows, grain) : 0; part < parts; ++part)
    each(C, [=](int64_t c, auto lanes) {
      const float* products = partial + 2 * part * C + c;
      if (dweight) store(dweight + c, load(dweight + c, lanes) + load(products, lanes), lanes);
      if (dbias) store(dbias + c, load(dbias + c, lanes) + load(products + C, lanes), lanes);
    });
}

template <class F>
[[gnu::always_inline]] inline void by_kind(NormKind kind, F&& f) {
  switch (kind) {
    case NormKind::layer_sigma: return f.template operator()<NormKind::layer_sigma>();
    case NormKind::layer_variance: return f.template operator()<NormKind::layer_variance>();
    case NormKind::rms: return f.template operator()<NormKind::rms>();
  }
}

}  // namespace

void norm(const NormArgs& a) {
  by_type(a.x.dtype(), [&]<class T>() { by_kind(a.kind, [&]<NormKind kind>() { norm_of<T, kind>(a); }); });
}

void norm_grad(const NormGradTask& task) {
  const NormGradArgs& a = task.args;
  by_type(a.x.dtype(), [&]<class T>() {
    by_kind(a.kind, [&]<NormKind kind>() {
      by_flag(a.accumulate, [&]<bool accumulate>() { norm_grad_of<T, kind, accumulate>(task); });
    });
  });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
