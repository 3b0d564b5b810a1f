#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"
#include "lithe/kernels/pointwise/pointwise.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

/// log(1 + e) for e in [0, 1]: with w = e / (2 + e), 2 (w + w^3/3 + ...), w <= 1/3.
[[gnu::always_inline]] inline Vec log_of_one_and(Vec e) {
  const Vec w = e / (2.0f + e), s = w * w;
  Vec p = splat(2.0f / 15);
  p = p * s + 2.0f / 13;
  p = p * s + 2.0f / 11;
  p = p * s + 2.0f / 9;
  p = p * s + 2.0f / 7;
  p = p * s + 2.0f / 5;
  p = p * s + 2.0f / 3;
  return w * (p * s + 2.0f);
}

template <Pointwise kKind>
[[gnu::always_inline]] inline Vec value(Vec x) {
  if constexpr (kKind == Pointwise::sigmoid) return sigmoid(x);
  if constexpr (kKind == Pointwise::log_sigmoid) return min(x, Vec{}) - log_of_one_and(exp_nonpositive(-abs(x)));
  if constexpr (kKind == Pointwise::softplus) return max(x, Vec{}) + log_of_one_and(exp_nonpositive(-abs(x)));
  if constexpr (kKind == Pointwise::exp) return exp(x);
  if constexpr (kKind == Pointwise::elu1) return x > 0.0f ? x + 1.0f : exp_nonpositive(x);
}
template <Pointwise kKind>
[[gnu::always_inline]] inline Vec slope(Vec x) {
  if constexpr (kKind == Pointwise::sigmoid) return sigmoid(x) * sigmoid(-x);
  if constexpr (kKind == Pointwise::log_sigmoid) return sigmoid(-x);
  if constexpr (kKind == Pointwise::softplus) return sigmoid(x);
  if constexpr (kKind == Pointwise::exp) return exp(x);
  if constexpr (kKind == Pointwise::elu1) return x > 0.0f ? splat(1) : exp_nonpositive(x);
}

template <class F>
[[gnu::always_inline]] inline void by_kind(Pointwise kind, F&& f) {
  switch (kind) {
    case Pointwise::sigmoid: return f.template operator()<Pointwise::sigmoid>();
    case Pointwise::log_sigmoid: return f.template operator()<Pointwise::log_sigmoid>();
    case Pointwise::softplus: return f.template operator()<Pointwise::softplus>();
    case Pointwise::exp: return f.template operator()<Pointwise::exp>();
    case Pointwise::elu1: return f.template operator()<Pointwise::elu1>();
  }
}

/// f.operator()<T, Y>() for x of T and results of T or f32.
template <class F>
[[gnu::always_inline]] inline void by_types(DType x, DType y, F&& f) {
  if (x != DType::bf16)
    f.template operator()<float, float>();
  else if (y == DType::bf16)
    f.template operator()<bf16, bf16>();
  else
    f.template operator()<bf16, float>();
}

}  // namespace

void pointwise(const PointwiseArgs& a) {
  by_types(a.x.dtype(), a.y.dtype(), [&]<class T, class Y>() {
    by_kind(a.kind, [&]<Pointwise kKind>() {
      const T* x = pointer<const T>(a.x);
      Y* y = pointer<Y>(a.y);
      parallel_elements(a.x.numel(), sizeof(T) + sizeof(Y), [=](int64_t begin, int64_t count) {
        each(
            count, [=](int64_t i, auto lanes) __attribute__((always_inline)) {
              store(y + begin + i, value<kKind>(load(x + begin + i, lanes)), lanes);
            });
      });
    });
  });
}

void pointwise_grad(const PointwiseGradArgs& g) {
  by_types(g.x.dtype(), g.dy.dtype(), [&]<class T, class Y>() {
    by_kind(g.kind, [&]<Pointwise kKind>() {
      const T* x = pointer<const T>(g.x);
      const Y* dy = pointer<const Y>(g.dy);
      T* dx = pointer<T>(g.dx);
      const bool add = g.accumulate;
      parallel_elements(g.x.numel(), 2 * sizeof(T) + sizeof(Y), [=](int64_t begin, int64_t count) {
        each(
            count, [=](int64_t i, auto lanes) __attribute__((always_inline)) {
              const int64_t at = begin + i;
              Vec d = slope<kKind>(load(x + at, lanes)) * load(dy + at, lanes);
              if (add) d += load(dx + at, lanes);
              store(dx + at, d, lanes);
            });
      });
    });
  });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
