#include "lithe/ops/clamp.h"

#include "lithe/base/threads.h"

namespace lithe {
namespace {

// f(i) for each number; numbers differ by thread in nothing.
template <class F>
void each_number(const Tensor& x, F f) {
  if (x.is_meta()) return;
  dispatch_float(x.dtype(), [&]<class T>() {
    parallel_for(x.numel(), 1 << 14, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) f.template operator()<T>(i);
    });
  });
}

}  // namespace

Var clamp(const Var& x, double bound) {
  const Tensor y = empty(x.shape(), x.dtype(), x.device());
  each_number(x.value(), [from = x.value(), y, bound]<class T>(int64_t i) {
    const T v = from.data<T>()[i];
    y.data<T>()[i] = double(v) > bound ? T(bound) : double(v) < -bound ? T(-bound) : v;
  });
  return record("clamp", {x}, y, [x, bound](const Tensor& dy, Grads& g) {
    const auto dx = g.into(x);
    if (!dx) return;
    each_number(dy, [&, from = x.value()]<class T>(int64_t i) {
      const double v = double(from.data<T>()[i]), d = v > bound || v < -bound ? 0 : double(dy.data<T>()[i]);
      dx.to.data<T>()[i] = T(dx.accumulate ? double(dx.to.data<T>()[i]) + d : d);
    });
  });
}

}  // namespace lithe
