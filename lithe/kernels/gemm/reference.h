// The specification of matrix products: scalar, serial, sums in double.
#pragma once

#include <cstdint>

namespace lithe::kernels::ref {

// c[m,n] = (accumulate ? c[m,n] : 0) + sum_k op(a)[m,k] op(b)[k,n] + bias[n]
template <class T, class Out, class Bias>
void gemm(const T* a, const T* b, const Bias* bias, Out* c, int64_t M, int64_t N, int64_t K, bool transpose_a,
          bool transpose_b, bool accumulate) {
  for (int64_t m = 0; m < M; ++m)
    for (int64_t n = 0; n < N; ++n) {
      double sum = 0;
      for (int64_t k = 0; k < K; ++k)
        sum += double(transpose_a ? a[k * M + m] : a[m * K + k]) * double(transpose_b ? b[n * K + k] : b[k * N + n]);
      if (bias) sum += double(bias[n]);
      if (accumulate) sum += double(c[m * N + n]);
      c[m * N + n] = Out(sum);
    }
}

}  // namespace lithe::kernels::ref
