// Rows stay in the first cache between the passes over them; see ref/norm.h for the formulas.
#include "lithe/kernels/norm.h"

#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/tasks.h"
#include "lithe/kernels/cpu/vector.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

template <class T, NormKind kind>
void norm_of(const NormArgs& a) {
  constexpr bool centred = kind != NormKind::rms;
  const int64_t rows = rows_of(a.x), C = cols_of(a.x);
  const T *x = pointer<T>(a.x), *residual = pointer<T>(a.residual);
  T *sum_out = pointer<T>(a.sum), *y = pointer<T>(a.y);
  const float *weight = pointer<float>(a.weight), *bias = pointer<float>(a.bias);
  float *means = pointer<float>(a.mean), *scales = pointer<float>(a.scale);
  const float eps = float(a.eps), inverse = 1.0f / float(C);
  parallel(rows, grain_of_rows((residual ? 4 : 2) * C * int64_t(sizeof(T))), [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t n = begin; n < end; ++n) {
      const T* z = x + n * C;
      T* to = y + n * C;
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
      if (bias)
        each(C, [=](int64_t c, auto lanes) {
          store(to + c, (load(z + c, lanes) - mean) * scale * load(weight + c, lanes) + load(bias + c, lanes), lanes);
        });
      else
        each(C, [=](int64_t c, auto lanes) {
          store(to + c, (load(z + c, lanes) - mean) * scale * load(weight + c, lanes), lanes);
        });
      if (centred && means) means[n] = mean;
      if (scales) scales[n] = scale;
    }
  });
}

/// One row of the gradient. With g = weight dy and h = x - mean it makes the sums of g, g h and h^2, and on
/// the way adds dy h scale to `products` and dy to `sums`, when there are such.
template <class T, NormKind kind, bool accumulate, bool columns>
[[gnu::always_inline]] inline void gradient_row(const T* x, const T* dy, T* dx, const float* weight, float mean,
                                                float scale, int64_t C, float* products, float* sums) {
  constexpr bool centred = kind != NormKind::rms;
  Vec g_sum{}, dot{}, squares{};
  each(C, [&](int64_t c, auto lanes) {
    const Vec d = load(dy + c, lanes), h = keep(load(x + c, lanes) - mean, lanes), g = d * load(weight + c, lanes);
    if constexpr (centred) g_sum += g;
    dot += g * h;
    if constexpr (kind == NormKind::layer_sigma) squares += h * h;
    if constexpr (columns) {
      store(products + c, load(products + c, lanes) + d * h * scale, lanes);
      store(sums + c, load(sums + c, lanes) + d, lanes);
    }
  });
  if (!dx) return;
  const float inverse = 1.0f / float(C);
  float k = scale * scale * scale;
  if constexpr (kind == NormKind::layer_sigma) {
    const float sigma = __builtin_sqrtf(sum(squares) * inverse);
    k = sigma > 0 ? scale * scale / sigma : 0;
  }
  const float mean_g = centred ? sum(g_sum) * inverse : 0, k_dot = k * sum(dot) * inverse;
  each(C, [=](int64_t c, auto lanes) {
    const Vec g = load(dy + c, lanes) * load(weight + c, lanes), h = load(x + c, lanes) - mean;
    Vec v = scale * (g - mean_g) - k_dot * h;
    if constexpr (accumulate) v += load(dx + c, lanes);
    store(dx + c, v, lanes);
  });
}

template <class T, NormKind kind, bool accumulate, bool columns>
void norm_grad_of(const NormGradTask& task) {
  const NormGradArgs& a = task.args;
  const int64_t rows = rows_of(a.x), C = cols_of(a.x);
  const T *x = pointer<T>(a.x), *dy = pointer<T>(a.dy);
  T* dx = pointer<T>(a.dx);
  const float *weight = pointer<float>(a.weight), *means = pointer<float>(a.mean), *scales = pointer<float>(a.scale);
  float *dweight = pointer<float>(a.dweight), *dbias = pointer<float>(a.dbias), *partial = task.partial;
  const int64_t grain = grain_of_rows(3 * C * int64_t(sizeof(T)));
  parallel(rows, grain, [=](int64_t begin, int64_t end, int64_t part) {
    float *products = nullptr, *sums = nullptr;
    if constexpr (columns) {
      products = partial + 2 * part * C;
      sums = products + C;
      __builtin_memset(products, 0, size_t(2 * C) * sizeof(float));
    }
    for (int64_t n = begin; n < end; ++n)
      gradient_row<T, kind, accumulate, columns>(x + n * C, dy + n * C, dx ? dx + n * C : nullptr, weight,
                                                 kind == NormKind::rms ? 0 : means[n], scales[n], C, products, sums);
  });
  if constexpr (columns)
    for (int64_t part = 0, parts = rows ? parts_of(rows, grain) : 0; part < parts; ++part)
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
      by_flag(a.accumulate, [&]<bool accumulate>() {
        by_flag(a.dweight || a.dbias, [&]<bool columns>() { norm_grad_of<T, kind, accumulate, columns>(task); });
      });
    });
  });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
