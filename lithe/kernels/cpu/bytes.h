// i8 in memory, f32 in lanes.
#pragma once

#include "lithe/kernels/cpu/vector.h"

namespace lithe::kernels::cpu::LITHE_ISA {

typedef int8_t ByteVec __attribute__((vector_size(kLanes)));

[[gnu::always_inline]] inline IntVec ints(const int8_t* p) {
#if defined(__AVX512F__)
  return (IntVec)_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(__AVX2__)
  return (IntVec)_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
#else
  ByteVec bytes;
  __builtin_memcpy(&bytes, p, sizeof bytes);
  return __builtin_convertvector(bytes, IntVec);
#endif
}
[[gnu::always_inline]] inline Vec load(const int8_t* p, All = {}) { return __builtin_convertvector(ints(p), Vec); }
/// Lanes beyond `f` are 0 and their memory is not touched.
[[gnu::always_inline]] inline Vec load(const int8_t* p, First f) {
  int8_t bytes[kLanes] = {};
  for (int i = 0; i < f.count; ++i) bytes[i] = p[i];
  return load(bytes);
}

/// x, which is within [-127.5, 127.5], rounded, halves away from zero.
[[gnu::always_inline]] inline void store_rounded(int8_t* p, Vec x, int count) {
  // The largest number below a half, with the sign of x: what is cut off after adding it rounds halves away from 0.
  const Vec half = as_floats((as_ints(x) & int32_t(0x80000000)) | 0x3effffff);
  const ByteVec bytes = __builtin_convertvector(__builtin_convertvector(x + half, IntVec), ByteVec);
  if (count == kLanes)
    __builtin_memcpy(p, &bytes, sizeof bytes);
  else
    for (int i = 0; i < count; ++i) p[i] = bytes[i];
}

/// The step between the numbers that a row of K is rounded to in bytes: NaN where it is not finite, 0 where it counts
/// as zero.
struct RowStep {
  float size, inverse;
  bool zero;
};
template <class T>
[[gnu::always_inline]] inline RowStep step_of(const T* x, int64_t K) {
  IntVec most{};
  each(
      K, [&](int64_t k, auto lanes) __attribute__((always_inline)) {
        const IntVec bits = as_ints(abs(load(x + k, lanes)));  // of magnitudes: their order is that of the numbers
        most = bits > most ? bits : most;
      });
  int32_t bits = 0;
  for (int i = 0; i < kLanes; ++i) bits = most[i] > bits ? most[i] : bits;
  const bool finite = bits < 0x7f800000;
  const float largest = __builtin_bit_cast(float, bits);
  const bool zero = !finite || largest < 0x1p-100f;
  return {!finite ? __builtin_nanf("") : zero ? 0 : largest / 127, zero ? 0 : 127 / largest, zero};
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
