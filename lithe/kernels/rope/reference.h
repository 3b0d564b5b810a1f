// The specification of rope.h: scalar, serial, in double.
#pragma once

#include <cmath>

#include "lithe/kernels/rope/rope.h"
#include "lithe/kernels/scalar.h"

namespace lithe::kernels::ref {

// For c = 0 .. d_h/2 - 1: (u, v) = the pair c of a head, t = position * base^(-2c/d_h), -t for the inverse, d_h =
// turned():
//   u' = u cos t - v sin t,   v' = u sin t + v cos t
template <class T>
void rope(const RopeArgs& a) {
  const int64_t N = a.x.rows(), C = a.x.cols(), half = a.turned() / 2;
  const T* x = a.x.data<T>();
  const int32_t* positions = a.positions.data<int32_t>();
  T* out = a.out.data<T>();
  for (int64_t n = 0; n < N; ++n)
    for (int64_t c = 0; c < half; ++c) {
      const double angle = positions[n] * (a.frequencies ? (*a.frequencies)[size_t(c)]
                                                         : std::pow(a.base, -2.0 * double(c) / double(a.turned())));
      const double cosine = std::cos(angle), sine = a.inverse ? -std::sin(angle) : std::sin(angle);
      for (int64_t head = 0; head < C; head += a.head_dim) {
        const int64_t i = n * C + head + (a.interleaved ? 2 * c : c), j = a.interleaved ? i + 1 : i + half;
        const double u = x[i], v = x[j];
        put(out[i], u * cosine - v * sine, a.accumulate);
        put(out[j], u * sine + v * cosine, a.accumulate);
      }
    }
  for (int64_t n = 0; n < N; ++n)
    for (int64_t head = 0; head < C; head += a.head_dim)
      for (int64_t i = n * C + head + a.turned(); i < n * C + head + a.head_dim; ++i)
        put(out[i], double(x[i]), a.accumulate);
}

}  // namespace lithe::kernels::ref
