// Functions of single numbers that have no kernel: for a few numbers a row.
#pragma once

#include <algorithm>
#include <cmath>

#include "lithe/autograd/var.h"

namespace lithe {

/// y = f(x) elementwise, computed in double; `slope(x, y)` is its derivative.
template <class F, class Slope>
Var each_number(const char* name, const Var& x, F f, Slope slope) {
  const Tensor in = x.value(), y = empty(x.shape(), x.dtype(), x.device());
  if (!y.is_meta())
    for (int64_t i = 0; i < y.numel(); ++i) set_value(y, i, f(value_at(in, i)));
  return record(name, {x}, y, [=, x = x.ref()](const Tensor& dy, Grads& g) {
    const auto dx = g.into(x);
    if (dy.is_meta()) return;
    for (int64_t i = 0; i < y.numel(); ++i)
      set_value(dx.to, i,
                (dx.accumulate ? value_at(dx.to, i) : 0) + value_at(dy, i) * slope(value_at(in, i), value_at(y, i)));
  });
}

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

}  // namespace lithe
