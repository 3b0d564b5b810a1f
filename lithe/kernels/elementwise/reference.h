// The specification of elementwise.h: scalar, serial, in double.
#pragma once

#include <cmath>

#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/scalar.h"

namespace lithe::kernels::ref {

// relu max(x,0)    gelu x Phi(x)    gelu_tanh x/2 (1 + tanh u), u = sqrt(2/pi) (x + 0.044715 x^3)
// silu x / (1 + e^-x)    tanh
inline double activate(Activation kind, double x) {
  switch (kind) {
    case Activation::relu: return x < 0 ? 0 : x;
    case Activation::gelu: return 0.5 * x * std::erfc(-x * M_SQRT1_2);
    case Activation::gelu_tanh: return 0.5 * x * (1 + std::tanh(M_2_SQRTPI * M_SQRT1_2 * (x + 0.044715 * x * x * x)));
    case Activation::silu: return x / (1 + std::exp(-x));
    case Activation::tanh: return std::tanh(x);
  }
  return 0;
}

// relu [x > 0]    gelu Phi(x) + x phi(x)    gelu_tanh (1 + t)/2 + x/2 (1 - t^2) u'    silu s (1 + x (1 - s))
// tanh 4 e^-2|x| / (1 + e^-2|x|)^2
inline double activate_grad(Activation kind, double x) {
  switch (kind) {
    case Activation::relu: return x > 0 ? 1 : x <= 0 ? 0 : x;
    case Activation::gelu:
      return 0.5 * std::erfc(-x * M_SQRT1_2) + x * std::exp(-0.5 * x * x) * (0.5 * M_2_SQRTPI * M_SQRT1_2);
    case Activation::gelu_tanh: {
      const double c = M_2_SQRTPI * M_SQRT1_2, t = std::tanh(c * (x + 0.044715 * x * x * x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
    }
    case Activation::silu: {
      const double s = 1 / (1 + std::exp(-x));
      return s * (1 + x * (1 - s));
    }
    case Activation::tanh: {
      const double e = std::exp(-2 * std::abs(x));
      return 4 * e / ((1 + e) * (1 + e));
    }
  }
  return 0;
}

// y[n,c] = f(x[n,c] + bias[c])
template <class T>
void activation(const ActivationArgs& a) {
  const T* x = a.x.data<T>();
  const Wide<T>* bias = data_or_null<Wide<T>>(a.bias);
  T* y = a.y.data<T>();
  for (int64_t n = 0, i = 0; n < a.x.rows(); ++n)
    for (int64_t c = 0; c < a.x.cols(); ++c, ++i)
      y[i] = T(activate(a.kind, double(x[i]) + (bias ? double(bias[c]) : 0)));
}

// dx[n,c] (+)= f'(x[n,c] + bias[c]) dy[n,c]
template <class T>
void activation_grad(const ActivationGradArgs& a) {
  const T *x = a.x.data<T>(), *dy = a.dy.data<T>();
  const Wide<T>* bias = data_or_null<Wide<T>>(a.bias);
  T* dx = a.dx.data<T>();
  for (int64_t n = 0, i = 0; n < a.x.rows(); ++n)
    for (int64_t c = 0; c < a.x.cols(); ++c, ++i)
      put(dx[i], activate_grad(a.kind, double(x[i]) + (bias ? double(bias[c]) : 0)) * double(dy[i]), a.accumulate);
}

// y = f(gate) up
template <class T>
void gated(const GatedArgs& a) {
  const T *gate = a.gate.data<T>(), *up = a.up.data<T>();
  T* y = a.y.data<T>();
  for (int64_t i = 0; i < a.gate.numel(); ++i) y[i] = T(activate(a.kind, gate[i]) * double(up[i]));
}

// dgate = f'(gate) up dy,   dup = f(gate) dy
template <class T>
void gated_grad(const GatedGradArgs& a) {
  const T *gate = a.gate.data<T>(), *up = a.up.data<T>(), *dy = a.dy.data<T>();
  T *dgate = a.dgate.data<T>(), *dup = a.dup.data<T>();
  for (int64_t i = 0; i < a.gate.numel(); ++i) {
    const double g = gate[i], u = up[i], d = dy[i];  // read before writing: dgate may be gate, dup may be up or dy
    dgate[i] = T(activate_grad(a.kind, g) * u * d);
    dup[i] = T(activate(a.kind, g) * d);
  }
}

// out = alpha a + beta b
template <class A, class B, class O>
void add(const AddArgs& args) {
  const A* a = args.a.data<A>();
  const B* b = data_or_null<B>(args.b);
  O* out = args.out.data<O>();
  for (int64_t i = 0; i < args.a.numel(); ++i)
    out[i] = O(args.alpha * double(a[i]) + (b ? args.beta * double(b[i]) : 0));
}

// out (+)= a b
template <class T>
void mul(const MulArgs& args) {
  const T *a = args.a.data<T>(), *b = args.b.data<T>();
  T* out = args.out.data<T>();
  for (int64_t i = 0; i < args.a.numel(); ++i) put(out[i], double(a[i]) * double(b[i]), args.accumulate);
}

// out[n,c] = x[n,c] scale[c] + shift[c],   c with the period of scale and shift
template <class T>
void row_affine(const RowAffineArgs& a) {
  const T* x = a.x.data<T>();
  const Wide<T>*scale = data_or_null<Wide<T>>(a.scale), *shift = data_or_null<Wide<T>>(a.shift);
  const int64_t period = scale ? a.scale.numel() : a.shift.numel();
  T* out = a.out.data<T>();
  for (int64_t i = 0; i < a.x.numel(); ++i) {
    const int64_t c = i % period;
    out[i] = T(double(x[i]) * (scale ? double(scale[c]) : 1) + (shift ? double(shift[c]) : 0));
  }
}

// dx (+)= dy scale,   dscale[c] += sum_n x dy,   dshift[c] += sum_n dy
template <class T>
void row_affine_grad(const RowAffineGradArgs& a) {
  const T *x = data_or_null<T>(a.x), *dy = a.dy.data<T>();
  T* dx = data_or_null<T>(a.dx);
  const Wide<T>* scale = data_or_null<Wide<T>>(a.scale);
  Wide<T>*dscale = data_or_null<Wide<T>>(a.dscale), *dshift = data_or_null<Wide<T>>(a.dshift);
  const int64_t period = scale ? a.scale.numel() : dscale ? a.dscale.numel() : dshift ? a.dshift.numel() : a.dy.cols();
  const int64_t rows = period ? a.dy.numel() / period : 0;
  for (int64_t c = 0; c < period; ++c) {
    double with_x = 0, plain = 0;
    for (int64_t i = c; i < rows * period; i += period) {
      const double d = dy[i];
      if (dscale) with_x += double(x[i]) * d;
      plain += d;
      if (dx) put(dx[i], d * (scale ? double(scale[c]) : 1), a.accumulate);
    }
    if (dscale) put(dscale[c], with_x, true);
    if (dshift) put(dshift[c], plain, true);
  }
}

// y[i] (+)= x[i] / (1-p) where word i of the stream is >= p 2^32, else 0
template <class T>
void dropout(const DropoutArgs& a) {
  const T* x = a.x.data<T>();
  T* y = a.y.data<T>();
  for (int64_t i = 0; i < a.x.numel(); ++i) {
    const bool keep = double(random_u32(a.key, uint64_t(i))) >= a.p * 0x1p32;
    put(y[i], keep ? double(x[i]) / (1 - a.p) : 0, a.accumulate);
  }
}

}  // namespace lithe::kernels::ref
