// The specification of pointwise.h: scalar, serial, in double.
#pragma once

#include <cmath>

#include "lithe/kernels/pointwise/pointwise.h"
#include "lithe/kernels/scalar.h"

namespace lithe::kernels::ref {

inline double pointwise_value(Pointwise kind, double x) {
  switch (kind) {
    case Pointwise::sigmoid: return 1 / (1 + std::exp(-x));
    case Pointwise::log_sigmoid: return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x)));
    case Pointwise::softplus: return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
    case Pointwise::exp: return std::exp(x);
    case Pointwise::elu1: return x > 0 ? x + 1 : std::exp(x);
  }
  return 0;
}

inline double pointwise_slope(Pointwise kind, double x) {
  const double up = 1 / (1 + std::exp(-x)), down = 1 / (1 + std::exp(x));
  switch (kind) {
    case Pointwise::sigmoid: return up * down;
    case Pointwise::log_sigmoid: return down;
    case Pointwise::softplus: return up;
    case Pointwise::exp: return std::exp(x);
    case Pointwise::elu1: return x > 0 ? 1 : std::exp(x);
  }
  return 0;
}

template <class T, class Y>
void pointwise(const PointwiseArgs& a) {
  for (int64_t i = 0; i < a.x.numel(); ++i) a.y.data<Y>()[i] = Y(pointwise_value(a.kind, double(a.x.data<T>()[i])));
}

template <class T, class Y>
void pointwise_grad(const PointwiseGradArgs& g) {
  for (int64_t i = 0; i < g.x.numel(); ++i)
    put(g.dx.data<T>()[i], pointwise_slope(g.kind, double(g.x.data<T>()[i])) * double(g.dy.data<Y>()[i]), g.accumulate);
}

}  // namespace lithe::kernels::ref
