// The activations by lanes: value and slope from one exponential. What a caller does not use, the
// compiler drops.
#pragma once

#include "lithe/kernels/cpu/vector.h"
#include "lithe/kernels/elementwise.h"

namespace lithe::kernels::cpu::LITHE_ISA {

struct Activated {
  Vec value, slope;
};

/// x s and its derivative s + x s' for s = 1 / (1 + e^-z), given x dz/dx.
[[gnu::always_inline]] inline Activated gated_by_sigmoid(Vec x, Vec z, Vec x_dz) {
  const Vec e = exp(-z), s = 1.0f / (1.0f + e);
  // s' / dz = s (1 - s) = s (e s): accurate where s is near 1, and no inf * 0 where e overflows and s is 0.
  return {x * s, s + x_dz * (s * (min(splat(3e38f), e) * s))};
}

template <Activation kind>
[[gnu::always_inline]] inline Activated evaluate(Vec x) {
  if constexpr (kind == Activation::relu) {
    return {x < 0.0f ? Vec{} : x, x > 0.0f ? splat(1) : x <= 0.0f ? Vec{} : x};
  } else if constexpr (kind == Activation::gelu) {
    const Normal n = normal(x);
    return {x * n.cdf, n.cdf + x * n.density};
  } else if constexpr (kind == Activation::gelu_tanh) {
    // (1 + tanh u) / 2 = 1 / (1 + e^-2u). Beyond 10 it is 0 or 1 to all bits; the bound keeps x^3 finite.
    const Vec c = min(splat(10.0f), max(splat(-10.0f), x)), s = c * c;
    return gated_by_sigmoid(x, c * (0.0713548163f * s + 1.59576912f), c * (0.214064449f * s + 1.59576912f));
  } else if constexpr (kind == Activation::silu) {
    return gated_by_sigmoid(x, x, x);
  } else {
    // From e^-2|x|, which never overflows; where that cancels, the Taylor series to x^13.
    const Vec a = abs(x), e = exp(-2.0f * a), r = 1.0f / (1.0f + e), s = x * x;
    const Vec series =
        x + x * s *
                (-0.333333333f +
                 s * (0.133333333f +
                      s * (-0.0539682540f + s * (0.0218694885f + s * (-0.00886323553f + s * 0.00359212804f)))));
    const Vec far = (1.0f - e) * r;
    return {a < 0.3f ? series : x < 0.0f ? -far : x > 0.0f ? far : x, x == x ? 4.0f * e * r * r : x};
  }
}

/// Calls f.template operator()<kind>().
template <class F>
[[gnu::always_inline]] inline void by_kind(Activation kind, F&& f) {
  switch (kind) {
    case Activation::relu: return f.template operator()<Activation::relu>();
    case Activation::gelu: return f.template operator()<Activation::gelu>();
    case Activation::gelu_tanh: return f.template operator()<Activation::gelu_tanh>();
    case Activation::silu: return f.template operator()<Activation::silu>();
    case Activation::tanh: return f.template operator()<Activation::tanh>();
  }
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
