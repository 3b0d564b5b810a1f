// The specification of hash_pool.h: scalar, serial, in double.
#pragma once

#include "lithe/kernels/hash_pool/hash_pool.h"
#include "lithe/kernels/token_bits/reference.h"

namespace lithe::kernels::ref {

/// c_j of a code.
inline int64_t group_of(const int32_t* code, int64_t j, int64_t bits, int64_t group_size) {
  return bits_of(code, j * group_size, std::min(group_size, bits - j * group_size));
}

// out[n,:] = sum_j w[j,:] B[c_j(n),:]
template <class T>
void hash_pool(const HashPoolArgs& a) {
  const int64_t N = a.out.rows(), D = a.out.cols(), G = a.weights.rows();
  const int32_t* code = a.codes.data<int32_t>();
  const T* table = a.table.data<T>();
  const Wide<T>* weights = a.weights.data<Wide<T>>();
  T* out = a.out.data<T>();
  for (int64_t n = 0; n < N; ++n, code += a.codes.cols(), out += D)
    for (int64_t d = 0; d < D; ++d) {
      double sum = 0;
      for (int64_t j = 0; j < G && code[0] == code_ordinary; ++j)
        sum += double(weights[j * D + d]) * double(table[group_of(code, j, a.bits, a.group_size) * D + d]);
      out[d] = T(sum);
    }
}

// dB[c_j(n),:] += w[j,:] dout[n,:],  dw[j,:] += B[c_j(n),:] dout[n,:], for n in order
template <class T>
void hash_pool_grad(const HashPoolGradArgs& a) {
  const int64_t N = a.dout.rows(), D = a.dout.cols(), G = a.weights.rows();
  const int32_t* code = a.codes.data<int32_t>();
  const T *table = a.table.data<T>(), *dout = a.dout.data<T>();
  const Wide<T>* weights = a.weights.data<Wide<T>>();
  Wide<T>*dtable = data_or_null<Wide<T>>(a.dtable), *dweights = data_or_null<Wide<T>>(a.dweights);
  for (int64_t n = 0; n < N; ++n, code += a.codes.cols(), dout += D)
    for (int64_t j = 0; j < G && code[0] == code_ordinary; ++j) {
      const int64_t row = group_of(code, j, a.bits, a.group_size) * D;
      for (int64_t d = 0; d < D; ++d) {
        if (dtable) put(dtable[row + d], double(weights[j * D + d]) * double(dout[d]), true);
        if (dweights) put(dweights[j * D + d], double(table[row + d]) * double(dout[d]), true);
      }
    }
}

}  // namespace lithe::kernels::ref
