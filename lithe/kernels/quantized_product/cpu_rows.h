// What all forms of integer products share: how a row is rounded, and what becomes of a sum. Each gives the same bits.
#pragma once

#include "lithe/kernels/cpu/bytes.h"
#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/gemm/cpu_vectors.h"
#include "lithe/kernels/quantized_product/cpu.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

/// The integers of kLanes inputs from k on, 0 beyond K.
template <class T>
[[gnu::always_inline]] inline IntVec rounded(const T* x, int64_t K, int64_t k, const RowStep& step) {
  const Vec v = k + kLanes <= K ? load(x + k) : k < K ? load(x + k, First{int(K - k)}) : Vec{};
  // The largest number below a half, with the sign of v: what is cut off after adding it rounds halves away from 0.
  const Vec half = as_floats((as_ints(v) & int32_t(0x80000000)) | 0x3effffff);
  return __builtin_convertvector(v * step.inverse + half, IntVec);
}

[[gnu::always_inline]] inline int32_t total_of(IntVec sum) {
  int32_t all = 0;
  for (int i = 0; i < kLanes; ++i) all += sum[i];
  return all;
}

/// y[m, n ...] from the sums of kLanes outputs times the row's step.
template <class Out>
[[gnu::always_inline]] inline void put(const QuantizedProduct& p, int64_t m, int64_t n, Vec sum) {
  const int64_t left = p.N - n;
  const Vec bias = p.bias ? load_some(p.bias + n, left) : Vec{};
  sum = p.w_scales ? sum * load(p.w_scales + n) + bias : sum + bias;
  store_some(pointer<Out>(p.args->y) + m * p.N + n, sum, left);
}

}  // namespace
}  // namespace lithe::kernels::cpu::LITHE_ISA
