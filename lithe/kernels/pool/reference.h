// The specification of lithe/kernels/pool/pool.h.
#pragma once

#include <cmath>

#include "lithe/kernels/pool/pool.h"

namespace lithe::kernels::ref {

template <class T>
void pool(const PoolArgs& a) {
  const int64_t C = a.x.cols();
  const T* x = a.x.data<T>();
  const auto row_of = [&](int64_t i) { return a.from.empty() ? i : a.from[size_t(i)]; };
  for (size_t b = 0; b + 1 < a.offsets.size(); ++b)
    for (int64_t c = 0; c < C; ++c) {
      const int64_t begin = a.offsets[b], end = a.offsets[b + 1], to = int64_t(b) * C + c;
      double sum = 0;
      int64_t best = row_of(begin);
      for (int64_t i = begin; i < end; ++i) {
        const auto value = double(x[row_of(i) * C + c]);
        sum += value;
        if (value > double(x[best * C + c]) || std::isnan(value)) best = row_of(i);  // NaN stays, as in a mean
      }
      a.out.data<T>()[to] = a.kind == Pooling::mean ? T(sum / double(end - begin)) : x[best * C + c];
      if (a.kind == Pooling::max) a.rows.data<int32_t>()[to] = int32_t(best);
    }
}

template <class T>
void pool_grad(const PoolGradArgs& a) {
  const int64_t C = a.dx.cols();
  const T* dout = a.dout.data<T>();
  T* dx = a.dx.data<T>();
  for (int64_t n = 0; n < a.dx.rows(); ++n)
    for (int64_t c = 0; c < C; ++c) {
      double sum = a.accumulate ? double(dx[n * C + c]) : 0;
      for (int64_t i = a.reader_offsets[n]; i < a.reader_offsets[n + 1]; ++i) {
        const int64_t b = a.readers[i];
        const auto d = double(dout[b * C + c]);
        if (a.kind == Pooling::mean)
          sum += d / double(a.offsets[size_t(b) + 1] - a.offsets[size_t(b)]);
        else if (a.rows.data<int32_t>()[b * C + c] == n)
          sum += d;
      }
      dx[n * C + c] = T(sum);
    }
}

}  // namespace lithe::kernels::ref
