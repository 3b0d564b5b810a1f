// Four inputs of kTile outputs at a time: how weights come into registers, and their products with words of rows.
#pragma once

#include <cstring>

#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/gemm/cpu_vectors.h"
#include "lithe/kernels/quantized_product/cpu.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

constexpr int kPanel = int(PackedMatrix::kPanel), kUnitBytes = kPanel * 4;
constexpr int kVectors = 2, kTile = kVectors * kLanes;
static_assert(kPanel % kTile == 0);
constexpr int64_t kAhead = 2048;  // bytes asked for ahead, beyond the end of a page
// Processors without products of bytes multiply 16-bit numbers in pairs: rows for 8-bit weights lie in words of two
// such numbers, inputs 0 and 2 of a unit, then 1 and 3.
#if defined(__AVX2__) && !defined(__AVX512VNNI__) && !defined(__AVXVNNI__)
#define LITHE_PAIRS
constexpr bool kPairs = true;
#else
constexpr bool kPairs = false;
#endif
enum class Form { int8, int4, blocks };
constexpr int words_of_unit(Form form) { return kPairs && form == Form::int8 ? 2 : 1; }
#ifdef LITHE_PAIRS
#if defined(__AVX512F__)
using Integers = __m512i;
[[gnu::always_inline]] inline Integers pairs_of_words(Integers a, Integers b) { return _mm512_madd_epi16(a, b); }
[[gnu::always_inline]] inline Integers pairs_of_bytes(Integers w, Integers x) { return _mm512_maddubs_epi16(w, x); }
[[gnu::always_inline]] inline Integers add_words(Integers a, Integers b) { return _mm512_add_epi16(a, b); }
[[gnu::always_inline]] inline Integers ones() { return _mm512_set1_epi16(1); }
// Of bytes; x with the signs of w.
[[gnu::always_inline]] inline Integers magnitudes(Integers w) { return _mm512_abs_epi8(w); }
[[gnu::always_inline]] inline Integers with_signs(Integers x, Integers w) {
  return _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
}
#else
using Integers = __m256i;
[[gnu::always_inline]] inline Integers pairs_of_words(Integers a, Integers b) { return _mm256_madd_epi16(a, b); }
[[gnu::always_inline]] inline Integers pairs_of_bytes(Integers w, Integers x) { return _mm256_maddubs_epi16(w, x); }
[[gnu::always_inline]] inline Integers add_words(Integers a, Integers b) { return _mm256_add_epi16(a, b); }
[[gnu::always_inline]] inline Integers ones() { return _mm256_set1_epi16(1); }
[[gnu::always_inline]] inline Integers magnitudes(Integers w) { return _mm256_abs_epi8(w); }
[[gnu::always_inline]] inline Integers with_signs(Integers x, Integers w) { return _mm256_sign_epi8(x, w); }
#endif
#endif

typedef uint16_t Halves __attribute__((vector_size(4 * kLanes)));

// Four unsigned bytes of w a lane, ready for a product with a unit of a row; with kPairs inputs 0 and 2, then 1 and 3.
struct Unit {
  WordVec words[kPairs ? 2 : 1];
  [[gnu::always_inline]] explicit Unit(WordVec w) {
    if constexpr (kPairs)
      words[0] = w & 0x00ff00ff, words[1] = (WordVec)((Halves)w >> 8);
    else
      words[0] = w;
  }
};

// Vector v of a tile's weights, which begin a line.
template <int v>
[[gnu::always_inline]] inline WordVec weights_at(const uint8_t* tile) {
  constexpr int kAt = v * kLanes * 4;
  if constexpr (kAt % 64 == 0) __builtin_prefetch(tile + kAt + kAhead);
  return load_bits<WordVec>(tile + kAt);
}

// sum + the four products of bytes of w with a unit of a row, in every lane, modulo 2^32.
[[gnu::always_inline]] inline IntVec dot(IntVec sum, const Unit& w, const uint32_t* x) {
#if defined(__AVX512VNNI__)
  return (IntVec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)w.words[0], (__m512i)repeat(x[0]));
#elif defined(__AVXVNNI__)
  return (IntVec)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)w.words[0], (__m256i)repeat(x[0]));
#elif defined(LITHE_PAIRS)
  const auto even = pairs_of_words((Integers)w.words[0], (Integers)repeat(x[0]));
  const auto odd = pairs_of_words((Integers)w.words[1], (Integers)repeat(x[1]));
  return (IntVec)((WordVec)sum + (WordVec)even + (WordVec)odd);
#else
  WordVec all = (WordVec)sum;
  for (int j = 0; j < 4; ++j)
    all += (WordVec)((IntVec)(w.words[0] >> (8 * j) & 255) * ((IntVec)(repeat(x[0]) << (24 - 8 * j)) >> 24));
  return (IntVec)all;
#endif
}

// ---- tiles: R rows x kTile outputs; with one row, of S panels: two streams are read faster than one

template <int R>
struct Tile {
  Vec sum[R][kVectors];
};

// Weights that are read at the same time, `apart` bytes from each other; of one panel, as many outputs from each other.
struct Streams {
  const uint8_t* w;
  int64_t apart;
  int64_t outputs = 0;
};

}  // namespace
}  // namespace lithe::kernels::cpu::LITHE_ISA
