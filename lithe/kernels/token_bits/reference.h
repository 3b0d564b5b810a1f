// The specification of token_bits.h: scalar, serial, in double.
#pragma once

#include <algorithm>
#include <cmath>

#include "lithe/kernels/scalar.h"
#include "lithe/kernels/token_bits/token_bits.h"

namespace lithe::kernels::ref {

/// The number that the `count` bits from bit `first` of a code's payload make, the first bit most significant.
inline int64_t bits_of(const int32_t* code, int64_t first, int64_t count) {
  int64_t value = 0;
  for (int64_t j = first; j < first + count; ++j) value = 2 * value + (uint32_t(code[1 + j / 32]) >> (31 - j % 32) & 1);
  return value;
}

// plain: s tau;  one_hot: s [1 - tau, tau];  standardized: s (tau - mean tau) / max(|tau - mean tau|, 1e-8)
template <class T>
void token_bits(const TokenBitsArgs& a) {
  const int64_t N = a.codes.rows(), width = a.codes.cols(), bits = a.bits, columns = a.out.cols();
  const int32_t* code = a.codes.data<int32_t>();
  T* out = a.out.data<T>();
  for (int64_t n = 0; n < N; ++n, code += width, out += columns) {
    std::fill(out, out + columns, T(0.0));
    if (code[0] != code_ordinary) continue;
    double ones = 0;
    for (int64_t j = 0; j < bits; ++j) ones += double(bits_of(code, j, 1));
    const bool standard = a.form == BitForm::standardized;
    const double mean = standard ? ones / double(bits) : 0,
                 norm = standard ? std::max(std::sqrt(ones * (1 - mean)), 1e-8) : 1;
    for (int64_t j = 0; j < bits; ++j) {
      const auto bit = double(bits_of(code, j, 1));
      if (a.form == BitForm::one_hot) out[j] = T(a.scale * (1 - bit));
      out[a.form == BitForm::one_hot ? bits + j : j] = T(a.scale * (bit - mean) / norm);
    }
  }
}

}  // namespace lithe::kernels::ref
