// 4-bit codes in memory, f32 in lanes.
#pragma once

#include "lithe/kernels/cpu/vector.h"
#include "lithe/kernels/int4_rows/int4_rows.h"

namespace lithe::kernels::cpu::LITHE_ISA {

typedef uint8_t PairVec __attribute__((vector_size(kLanes)));

/// kLanes bytes, one a lane.
[[gnu::always_inline]] inline IntVec load_bytes(const uint8_t* p) {
#if defined(__AVX512F__)
  return (IntVec)_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#elif defined(__AVX2__)
  return (IntVec)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
#else
  PairVec bytes;
  __builtin_memcpy(&bytes, p, sizeof bytes);
  return __builtin_convertvector(bytes, IntVec);
#endif
}

/// The numbers of a group, by their codes.
class Int4Group {
 public:
  [[gnu::always_inline]] explicit Int4Group(const bf16* scales) {
#if defined(__AVX512F__)
    table_ = __builtin_convertvector(lane_numbers(), Vec) * splat(scales[1]) + splat(scales[0]);
#else
    low_ = splat(scales[0]), step_ = splat(scales[1]);
#endif
  }
  /// Of codes in the lowest four bits of each lane.
  [[gnu::always_inline]] Vec operator()(IntVec codes) const {
#if defined(__AVX512F__)
    return (Vec)_mm512_permutexvar_ps((__m512i)codes, (__m512)table_);  // which looks at four bits
#else
    return __builtin_convertvector(codes & 15, Vec) * step_ + low_;
#endif
  }

 private:
#if defined(__AVX512F__)
  Vec table_;
#else
  Vec low_, step_;
#endif
};

/// The `size` channels of a head, from its codes and scales.
template <class T>
[[gnu::always_inline]] inline void widen_int4_head(const uint8_t* from, const bf16* scales, int64_t size, T* to) {
  constexpr int64_t kGroup = Int4Rows::kGroup, kHalf = kGroup / 2;
  int64_t at = 0;
  for (; at + kGroup <= size; at += kGroup, from += kHalf, scales += 2) {
    const Int4Group group(scales);
#pragma GCC unroll 4
    for (int64_t c = 0; c < kHalf; c += kLanes) {
      const IntVec pairs = load_bytes(from + c);
      store(to + at + c, group(pairs));
      store(to + at + kHalf + c, group(pairs >> 4));
    }
  }
  if (at == size) return;
  const Int4Group group(scales);
  const int64_t rest = size - at, half = (rest + 1) / 2;
  uint8_t bytes[kHalf] = {};
  float numbers[2][kHalf];
  for (int64_t i = 0; i < half; ++i) bytes[i] = from[i];
  for (int64_t c = 0; c < kHalf; c += kLanes) {
    const IntVec pairs = load_bytes(bytes + c);
    store(numbers[0] + c, group(pairs));
    store(numbers[1] + c, group(pairs >> 4));
  }
  each(
      half, [&](int64_t c, auto lanes)
                __attribute__((always_inline)) { store(to + at + c, load(numbers[0] + c), lanes); });
  each(
      rest - half, [&](int64_t c, auto lanes)
                       __attribute__((always_inline)) { store(to + at + half + c, load(numbers[1] + c), lanes); });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
