// The activations by lanes: value and slope from one exponential. What a caller does not use, the
// compiler drops.
#pragma once

#include "lithe/kernels/cpu/vector.h"
#include "lithe/kernels/elementwise/elementwise.h"

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

#if defined(__AVX512F__)
/// H(t) = t Phi(-t) and its derivative in sixteen pieces of t >= 0 around multiples of `width`: their Taylor series,
/// H to 3e-7 and the derivative to 8e-7, so that each coefficient of all pieces is one register. The last piece,
/// from 5.4 on, is 0.
struct GeluPieces {
  static constexpr double width = 0.375;
  static constexpr int degree = 6;
  alignas(64) float value[degree + 1][16] = {}, slope[degree + 1][16] = {};
  constexpr GeluPieces() {
    for (int piece = 0; piece < 15; ++piece) {
      const double t = width * piece;
      double exponential = 1, power = 1, series = 0, odd = t;
      for (int k = 1; k < 80; ++k) {
        exponential += power *= t * t / 2 / k;
        series += odd;
        odd *= t * t / (2 * k + 1);
      }
      const double density = 0.39894228040143267794 / exponential;
      // The derivatives of Phi(-t): d[1] = -phi(t), d[k+1] = -t d[k] - (k-1) d[k-1].
      double d[degree + 3] = {0.5 - density * series, -density, t * density};
      for (int k = 2; k < degree + 2; ++k) d[k + 1] = -t * d[k] - (k - 1) * d[k - 1];
      double scale = 1;
      for (int k = 0; k <= degree; ++k) {
        value[k][piece] = float(scale * (t * d[k] + (k ? k * d[k - 1] : 0)));
        slope[k][piece] = float(scale * (t * d[k + 1] + (k + 1) * d[k]));
        scale *= width / (k + 1);
      }
    }
  }
};
constexpr GeluPieces kGelu;

/// For results in bf16: half the work of what keeps f32's accuracy also in the lower tail.
[[gnu::always_inline]] inline Activated gelu_of_pieces(Vec x) {
  const Vec t = min(splat(15 * float(GeluPieces::width)), abs(x)), magic = splat(0x1.8p23f);
  const Vec near = t * float(1 / GeluPieces::width) + magic, f = t * float(1 / GeluPieces::width) - (near - magic);
  const auto series = [=](const float(&coefficients)[GeluPieces::degree + 1][16]) __attribute__((always_inline)) {
    const auto of_piece = [=](const float* c) __attribute__((always_inline)) {
      return Vec(_mm512_permutexvar_ps((__m512i)as_ints(near), load(c)));
    };
    Vec sum = of_piece(coefficients[GeluPieces::degree]);
#pragma GCC unroll 8
    for (int k = GeluPieces::degree; k-- > 0;) sum = sum * f + of_piece(coefficients[k]);
    return sum;
  };
  const Vec lower = series(kGelu.slope);
  return {max(Vec{}, x) - series(kGelu.value), x < 0.0f ? lower : 1.0f - lower};
}
#endif

/// evaluate() for results that are rounded to T.
template <Activation kind, class T>
[[gnu::always_inline]] inline Activated evaluate_for(Vec x) {
#if defined(__AVX512F__)
  if constexpr (kind == Activation::gelu && sizeof(T) == sizeof(bf16)) return gelu_of_pieces(x);
#endif
  return evaluate<kind>(x);
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
