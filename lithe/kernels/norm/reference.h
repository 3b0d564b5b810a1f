// The specification of norm.h: scalar, serial, in double.
#pragma once

#include <cmath>

#include "lithe/kernels/norm/norm.h"
#include "lithe/kernels/scalar.h"

namespace lithe::kernels::ref {

// z = x (+ residual);   m = mean_c z, 0 for rms;   q = mean_c (z - m)^2
// r = 1/(sqrt(q) + eps) for layer_sigma, 1/sqrt(q + eps) otherwise;   y[c] = (z[c] - m) r weight[c] + bias[c]
template <class T>
void norm(const NormArgs& a) {
  const int64_t N = a.x.rows(), C = a.x.cols();
  const T *x = a.x.data<T>(), *residual = data_or_null<T>(a.residual);
  T *sum = data_or_null<T>(a.sum), *y = a.y.data<T>();
  const Wide<T>*weight = a.weight.data<Wide<T>>(), *bias = data_or_null<Wide<T>>(a.bias);
  Wide<T>*mean = data_or_null<Wide<T>>(a.mean), *scale = data_or_null<Wide<T>>(a.scale);
  for (int64_t n = 0; n < N; ++n) {
    const T* z = x + n * C;
    if (residual) {
      // What is normalised is the sum as stored, so that the gradient, which reads it, sees the same numbers.
      for (int64_t c = 0; c < C; ++c) sum[n * C + c] = T(double(z[c]) + double(residual[n * C + c]));
      z = sum + n * C;
    }
    double m = 0, q = 0;
    if (a.kind != NormKind::rms) {
      for (int64_t c = 0; c < C; ++c) m += double(z[c]);
      m /= double(C);
    }
    for (int64_t c = 0; c < C; ++c) q += (double(z[c]) - m) * (double(z[c]) - m);
    q /= double(C);
    const double r = a.kind == NormKind::layer_sigma ? 1 / (std::sqrt(q) + a.eps) : 1 / std::sqrt(q + a.eps);
    for (int64_t c = 0; c < C; ++c)
      y[n * C + c] = T((double(z[c]) - m) * r * double(weight[c]) + (bias ? double(bias[c]) : 0));
    if (mean && a.kind != NormKind::rms) mean[n] = Wide<T>(m);
    if (scale) scale[n] = Wide<T>(r);
  }
}

// With g = weight dy, h = x - mean (x for rms), r = scale:
//   dx[c] (+)= r (g[c] - mean_c g) - k h[c] (sum_c g h) / C      (without mean_c g for rms)
//   k = r^2 / sigma for layer_sigma (0 for a constant row), r^3 otherwise
//   dweight[c] += sum_n dy h r,   dbias[c] += sum_n dy
template <class T>
void norm_grad(const NormGradArgs& a) {
  const int64_t N = a.x.rows(), C = a.x.cols();
  const T *x = a.x.data<T>(), *dy = a.dy.data<T>();
  T* dx = data_or_null<T>(a.dx);
  const Wide<T>*weight = a.weight.data<Wide<T>>(), *mean = data_or_null<Wide<T>>(a.mean),
        *scale = a.scale.data<Wide<T>>();
  Wide<T>*dweight = data_or_null<Wide<T>>(a.dweight), *dbias = data_or_null<Wide<T>>(a.dbias);
  const bool centred = a.kind != NormKind::rms;
  for (int64_t c = 0; c < C; ++c) {
    double with_h = 0, plain = 0;
    for (int64_t n = 0; n < N; ++n) {
      const double d = dy[n * C + c];
      with_h += d * (double(x[n * C + c]) - (centred ? double(mean[n]) : 0)) * double(scale[n]);
      plain += d;
    }
    if (dweight) put(dweight[c], with_h, true);
    if (dbias) put(dbias[c], plain, true);
  }
  if (!dx) return;
  for (int64_t n = 0; n < N; ++n) {
    const double m = centred ? double(mean[n]) : 0, r = scale[n];
    double mean_g = 0, dot = 0, squares = 0;
    for (int64_t c = 0; c < C; ++c) {
      const double g = double(weight[c]) * double(dy[n * C + c]), h = double(x[n * C + c]) - m;
      mean_g += g;
      dot += g * h;
      squares += h * h;
    }
    mean_g = centred ? mean_g / double(C) : 0;
    const double sigma = std::sqrt(squares / double(C));
    const double k = a.kind == NormKind::layer_sigma ? (sigma > 0 ? r * r / sigma : 0) : r * r * r;
    for (int64_t c = 0; c < C; ++c) {
      const double g = double(weight[c]) * double(dy[n * C + c]), h = double(x[n * C + c]) - m;
      put(dx[n * C + c], r * (g - mean_g) - k * h * dot / double(C), a.accumulate);
    }
  }
}

}  // namespace lithe::kernels::ref
