#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/vector.h"
#include "lithe/kernels/feature_map/feature_map.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

template <class T>
[[gnu::always_inline]] inline float largest_of(const T* x, int64_t n) {
  const float none = -__builtin_inff();
  Vec most = splat(none);
  each(
      n, [&](int64_t c, auto lanes)
             __attribute__((always_inline)) { most = max(keep(load(x + c, lanes), lanes, none), most); });
  return max(most);
}

template <class T>
void run(const FeatureMapArgs& a) {
  const int64_t C = cols_of(a.x) / a.heads;
  const T* x = pointer<const T>(a.x);
  const float* shift = pointer<const float>(a.shift);
  T* y = pointer<T>(a.y);
  const bool softmax = a.kind == FeatureMapArgs::Kind::softmax, centre = softmax || a.centre;
  const float factor = float(a.factor);
  parallel(rows_of(a.x) * a.heads, grain_of_rows(2 * C * int64_t(sizeof(T))), [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) {
      const T* from = x + i * C;
      const float from_all = (centre ? largest_of(from, C) : 0) + (shift ? shift[i] : 0);
      const auto feature = [&](int64_t c, auto lanes) __attribute__((always_inline)) {
        return exp(load(from + c, lanes) - from_all);
      };
      const float by = softmax ? 1 / sum(total(C, feature)) : factor;
      each(
          C, [&](int64_t c, auto lanes)
                 __attribute__((always_inline)) { store(y + i * C + c, feature(c, lanes) * by, lanes); });
    }
  });
}

template <class T>
void run_grad(const FeatureMapGradArgs& g) {
  const int64_t C = cols_of(g.y) / g.heads;
  const T *y = pointer<const T>(g.y), *dy = pointer<const T>(g.dy);
  T* dx = pointer<T>(g.dx);
  float* dshift = pointer<float>(g.dshift);
  const bool softmax = g.kind == FeatureMapArgs::Kind::softmax, add = g.accumulate;
  parallel(rows_of(g.y) * g.heads, grain_of_rows(4 * C * int64_t(sizeof(T))), [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i * C;
      const float all = sum(total(
          C, [&](int64_t c, auto lanes)
                 __attribute__((always_inline)) { return load(y + at + c, lanes) * load(dy + at + c, lanes); }));
      if (dshift) dshift[i] = -all;
      const float mean = softmax ? all : 0;
      each(
          C, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
            Vec d = load(y + at + c, lanes) * (load(dy + at + c, lanes) - mean);
            if (add) d += load(dx + at + c, lanes);
            store(dx + at + c, d, lanes);
          });
    }
  });
}

}  // namespace

void feature_map(const FeatureMapArgs& a) {
  by_type(a.x.dtype(), [&]<class T>() { run<T>(a); });
}
void feature_map_grad(const FeatureMapGradArgs& g) {
  by_type(g.y.dtype(), [&]<class T>() { run_grad<T>(g); });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
