// The specification of lithe/kernels/pool/pool.h, which is also what runs: pooling is one pass over rows that a whole
// encoder has been over.
#pragma once

#include <cmath>

#include "lithe/kernels/pool/pool.h"

namespace lithe::kernels::ref {

template <class T>
void pool(const PoolArgs& a) {
  const int64_t C = a.x.cols();
  const T* x = a.x.data<T>();
  for (size_t b = 0; b + 1 < a.offsets.size(); ++b)
    for (int64_t c = 0; c < C; ++c) {
      const int64_t begin = a.offsets[b], end = a.offsets[b + 1], to = int64_t(b) * C + c;
      double sum = 0;
      int64_t best = begin;
      for (int64_t n = begin; n < end; ++n) {
        const auto value = double(x[n * C + c]);
        sum += value;
        if (value > double(x[best * C + c]) || std::isnan(value)) best = n;  // NaN stays, as in a mean
      }
      a.out.data<T>()[to] = a.kind == Pooling::mean ? T(sum / double(end - begin)) : x[best * C + c];
      if (a.kind == Pooling::max) a.rows.data<int32_t>()[to] = int32_t(best);
    }
}

template <class T>
void pool_grad(const PoolGradArgs& a) {
  const int64_t C = a.dout.cols();
  T* dx = a.dx.data<T>();
  for (size_t b = 0; b + 1 < a.offsets.size(); ++b)
    for (int64_t n = a.offsets[b]; n < a.offsets[b + 1]; ++n)
      for (int64_t c = 0; c < C; ++c) {
        const int64_t of = int64_t(b) * C + c;
        const auto d = double(a.dout.data<T>()[of]);
        const double share = a.kind == Pooling::mean ? d / double(a.offsets[b + 1] - a.offsets[b])
                                                     : (a.rows.data<int32_t>()[of] == n ? d : 0);
        dx[n * C + c] = T(share + (a.accumulate ? double(dx[n * C + c]) : 0));
      }
}

}  // namespace lithe::kernels::ref
