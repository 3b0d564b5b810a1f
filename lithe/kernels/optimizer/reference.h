// The specification of optimizer.h: scalar, serial, in double.
#pragma once

#include <algorithm>
#include <cmath>

#include "lithe/kernels/optimizer/optimizer.h"
#include "lithe/kernels/scalar.h"

namespace lithe::kernels::ref {

// g = gradient_scale gradient;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
// param -= lr (m / (1-b1^step) / (sqrt(v / (1-b2^step)) + eps) + weight_decay param)
template <class T>
void adamw(const AdamWArgs& a) {
  T *param = a.param.data<T>(), *gradient = a.gradient.data<T>(), *m = a.m.data<T>(), *v = a.v.data<T>();
  bf16* shadow = data_or_null<bf16>(a.shadow);
  const double unbias1 = 1 - std::pow(a.beta1, double(a.step)), unbias2 = 1 - std::pow(a.beta2, double(a.step));
  for (int64_t i = 0; i < a.param.numel(); ++i) {
    const double g = a.gradient_scale * double(gradient[i]);
    m[i] = T(a.beta1 * double(m[i]) + (1 - a.beta1) * g);
    v[i] = T(a.beta2 * double(v[i]) + (1 - a.beta2) * g * g);
    const double step = double(m[i]) / unbias1 / (std::sqrt(double(v[i]) / unbias2) + a.eps);
    param[i] = T(double(param[i]) - a.lr * (step + a.weight_decay * double(param[i])));
    if (shadow) shadow[i] = bf16(float(param[i]));
    if (a.clear) gradient[i] = 0;
  }
}

// blocks[b] = sum x[i]^2 over the i in [b size, (b+1) size)
template <class T>
void sum_of_squares(const T* x, int64_t n, int64_t size, double* blocks) {
  for (int64_t begin = 0; begin < n; begin += size) {
    double block = 0;
    for (int64_t i = begin; i < std::min(n, begin + size); ++i) block += double(x[i]) * double(x[i]);
    *blocks++ = block;
  }
}

template <class T>
bool all_finite(const T* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (!std::isfinite(double(x[i]))) return false;
  return true;
}

}  // namespace lithe::kernels::ref
