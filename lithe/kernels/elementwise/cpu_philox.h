// random_block() of base/random.h for many blocks at once: Philox 4x32-10 in 64-bit lanes, one block a
// lane. A lane keeps each 32-bit word in its lower half; what the upper half holds does not matter,
// because the multiplication reads only the lower.
#pragma once

#include "lithe/base/random.h"
#include "lithe/kernels/cpu/vector.h"

namespace lithe::kernels::cpu::LITHE_ISA {

typedef uint64_t WideVec __attribute__((vector_size(4 * kLanes)));

/// Words of kLanes / 2 consecutive blocks, in the order of elements.
struct RandomWords {
  WordVec first, second;
};

[[gnu::always_inline]] inline WideVec multiply_low(WideVec a, uint32_t b) {
#if defined(__AVX512F__)
  return (WideVec)_mm512_mul_epu32((__m512i)a, _mm512_set1_epi64(b));
#elif defined(__AVX2__)
  return (WideVec)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
#elif defined(__SSE2__)
  return (WideVec)_mm_mul_epu32((__m128i)a, _mm_set1_epi64x(b));
#elif defined(__aarch64__)
  return (WideVec)vmull_u32(vmovn_u64((uint64x2_t)a), vdup_n_u32(b));  // products of 64 bits would be scalar ones
#else
  return (a & 0xffffffffu) * uint64_t(b);
#endif
}

class Philox {
 public:
  explicit Philox(const RandomKey& key)
      : mixed_(key.seed * 0x9E3779B97F4A7C15ull ^ (uint64_t(key.layer) << 32 | key.purpose)), step_(key.step) {}

  /// Elements [4 block, 4 block + 2 kLanes).
  [[gnu::always_inline]] RandomWords words(uint64_t block) const {
    constexpr int kBlocks = kLanes / 2;
    // Interleaving pairs of lanes at the end puts block j of an even lane before block j of the second half.
    WideVec number;
    for (int j = 0; j < kBlocks; ++j) number[j] = uint64_t(j % 2 ? kBlocks / 2 + j / 2 : j / 2);
    number += block;
    WideVec c0 = number, c1 = number >> 32, c2 = WideVec{} + (step_ & 0xffffffffu), c3 = WideVec{} + (step_ >> 32);
    uint32_t k0 = uint32_t(mixed_), k1 = uint32_t(mixed_ >> 32);
    for (int round = 0; round < 10; ++round) {
      const WideVec p0 = multiply_low(c0, 0xD2511F53u), p1 = multiply_low(c2, 0xCD9E8D57u);
      c0 = p1 >> 32 ^ c1 ^ uint64_t(k0);
      c1 = p1;
      c2 = p0 >> 32 ^ c3 ^ uint64_t(k1);
      c3 = p0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    const WideVec low = (c0 & 0xffffffffu) | c1 << 32, high = (c2 & 0xffffffffu) | c3 << 32;
    return {interleave<0>(low, high), interleave<1>(low, high)};
  }

 private:
  uint64_t mixed_, step_;

  /// Lanes low[at], high[at], low[at+2], high[at+2] and so on.
  template <int at>
  [[gnu::always_inline]] static WordVec interleave(WideVec low, WideVec high) {
#if defined(__AVX512F__)
    const auto a = (__m512i)low, b = (__m512i)high;
    return (WordVec)(at ? _mm512_unpackhi_epi64(a, b) : _mm512_unpacklo_epi64(a, b));
#elif defined(__AVX2__)
    const auto a = (__m256i)low, b = (__m256i)high;
    return (WordVec)(at ? _mm256_unpackhi_epi64(a, b) : _mm256_unpacklo_epi64(a, b));
#else
    return (WordVec)(WideVec{low[at], high[at]});
#endif
  }
};

}  // namespace lithe::kernels::cpu::LITHE_ISA
