// The specification of feature_map.h: scalar, serial, in double.
#pragma once

#include <algorithm>
#include <cmath>

#include "lithe/kernels/feature_map/feature_map.h"
#include "lithe/kernels/scalar.h"

namespace lithe::kernels::ref {

template <class T>
void feature_map(const FeatureMapArgs& a) {
  const int64_t C = a.x.cols() / a.heads;
  for (int64_t i = 0; i < a.x.rows() * a.heads; ++i) {
    const T* x = a.x.data<T>() + i * C;
    const bool softmax = a.kind == FeatureMapArgs::Kind::softmax;
    const double largest = softmax || a.centre ? double(*std::max_element(x, x + C)) : 0,
                 shift = largest + (a.shift ? double(a.shift.data<Wide<T>>()[i]) : 0);
    double factor = a.factor, sum = 0;
    for (int64_t c = 0; c < C; ++c) sum += std::exp(double(x[c]) - shift);
    if (softmax) factor = 1 / sum;
    for (int64_t c = 0; c < C; ++c) a.y.data<T>()[i * C + c] = T(factor * std::exp(double(x[c]) - shift));
  }
}

template <class T>
void feature_map_grad(const FeatureMapGradArgs& g) {
  const int64_t C = g.y.cols() / g.heads;
  for (int64_t i = 0; i < g.y.rows() * g.heads; ++i) {
    const T *y = g.y.data<T>() + i * C, *dy = g.dy.data<T>() + i * C;
    double sum = 0;
    for (int64_t c = 0; c < C; ++c) sum += double(y[c]) * double(dy[c]);
    const double mean = g.kind == FeatureMapArgs::Kind::softmax ? sum : 0;
    for (int64_t c = 0; c < C; ++c) put(g.dx.data<T>()[i * C + c], double(y[c]) * (double(dy[c]) - mean), g.accumulate);
    if (g.dshift) g.dshift.data<Wide<T>>()[i] = Wide<T>(-sum);
  }
}

}  // namespace lithe::kernels::ref
