// Products with weights in the blocks of GGUF files.
#pragma once

#include "lithe/kernels/cpu/bytes.h"
#include "lithe/kernels/quantized_product/cpu_tile.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

// kLanes finite numbers of f16. Arithmetic with subnormal ones takes processors more than a hundred cycles.
[[gnu::always_inline]] inline Vec halves(const uint8_t* p) {
#if defined(__AVX512F__)
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__AVX2__)
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
  const WordVec bits = __builtin_convertvector(load_bits<HalfVec>(p), WordVec);
  const Vec size = floats((bits & 0x7fff) << 13) * 0x1p112f;  // f32 with the exponent of f16, subnormal ones too
  return floats((WordVec)size | (bits & 0x8000) << 16);
#endif
}

// The table's numbers of codes that stand in bytes.
[[gnu::always_inline]] inline WordVec looked_up(WordVec codes) {
#if defined(__AVX2__)
  const __m128i table = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kBlockTable));
#if defined(__AVX512F__)
  return (WordVec)_mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), (__m512i)codes);
#else
  return (WordVec)_mm256_shuffle_epi8(_mm256_broadcastsi128_si256(table), (__m256i)codes);
#endif
#else
  uint8_t bytes[sizeof codes];
  std::memcpy(bytes, &codes, sizeof codes);
  for (uint8_t& byte : bytes) byte = uint8_t(kBlockTable[byte & 15]);
  return load_bits<WordVec>(bytes);
#endif
}

// Bits [0, bits) of each byte of a word from `from` on, as bits [4, 4 + bits).
template <int bits>
[[gnu::always_inline]] inline WordVec upper_bits(WordVec word, int from) {
  constexpr uint32_t kMask = bits == 1 ? 0x10101010 : 0x30303030;
  return (from <= 4 ? word << (4 - from) : word >> (from - 4)) & kMask;
}

// The bytes of unit u of a piece: small codes, or values, + 128 where products take unsigned bytes of any size. kFetch:
// those kAhead of it are asked for.
template <PackedFormat format, bool kFetch = true>
[[gnu::always_inline]] inline WordVec codes_at(const uint8_t* piece, int u) {
  constexpr uint32_t kTopBits = 0x80808080;
  constexpr BlockFormat f = block_format(format);
  const uint8_t* at = piece + (f.low == 8 ? u : u / 2) * kUnitBytes;
  if (kFetch && (f.low == 8 || u % 2 == 0)) __builtin_prefetch(at + kAhead);
  const WordVec word = load_bits<WordVec>(at);
  if constexpr (f.low == 8) return kPairs ? word ^ kTopBits : word;
  const WordVec low = (u % 2 ? word >> 4 : word) & 0x0f0f0f0f;
  const auto more = [&](int i) { return load_bits<WordVec>(piece + (4 + i) * kUnitBytes); };
  if constexpr (f.table) return kPairs ? looked_up(low) : looked_up(low) ^ kTopBits;
  if constexpr (f.high == 1) return low | upper_bits<1>(more(0), u);
  if constexpr (f.high == 2) return low | upper_bits<2>(more(u / 4), u % 4 * 2);
  return low;
}

// What these bytes have more than their values.
constexpr int code_offset(PackedFormat format) {
  const BlockFormat f = block_format(format);
  return kPairs && !small_codes(format) ? 0 : f.table ? 128 : f.offset;
}

// Where vector v of outputs lies, each of so many bytes, from the first one on; those that a panel does not have are
// another panel's, `apart` bytes behind.
[[gnu::always_inline]] inline int64_t vector_at(int v, int64_t size, int64_t apart) {
  constexpr int kOfPanel = kPanel / kLanes;
  return v / kOfPanel * apart + v % kOfPanel * kLanes * size;
}

// sum[vector][row] += the products of R rows of words x with a group of V vectors of outputs, whose piece begins at w.
template <PackedFormat format, int R, int V>
[[gnu::always_inline]] inline void add_group(const uint32_t* x, const uint8_t* w, int64_t apart, int part,
                                             IntVec (&sum)[V][R]) {
  constexpr BlockFormat f = block_format(format);
  constexpr int kUnits = int(f.group) / 4;
#ifdef LITHE_PAIRS
  if constexpr (small_codes(format)) {
    constexpr int kTogether = 8 >> f.high;  // units whose sums of pairs stay in 16 bits: 8 * 2 * 15 * 127 < 2^15
#pragma GCC unroll 4
    for (int first = 0; first < kUnits; first += kTogether) {
      Integers words[V][R];
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v)
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) words[v][r] = Integers{};
#pragma GCC unroll 8
      for (int u = first; u < first + kTogether; ++u)
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
          const auto codes = (Integers)codes_at<format>(w + vector_at(v, 4, apart), part * kUnits + u);
#pragma GCC unroll 16
          for (int r = 0; r < R; ++r) {
            Integers& to = words[v][r];
            to = add_words(to, pairs_of_bytes(codes, (Integers)repeat(x[u * R + r])));
          }
        }
#pragma GCC unroll 8
      for (int v = 0; v < V; ++v)
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) sum[v][r] += (IntVec)pairs_of_words(words[v][r], ones());
    }
    return;
  }
#pragma GCC unroll 8
  for (int u = 0; u < kUnits; ++u)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const auto values = (Integers)codes_at<format>(w + vector_at(v, 4, apart), part * kUnits + u),
                 sizes = magnitudes(values);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
        sum[v][r] +=
            (IntVec)pairs_of_words(pairs_of_bytes(sizes, with_signs((Integers)repeat(x[u * R + r]), values)), ones());
    }
#else
#pragma GCC unroll 8
  for (int u = 0; u < kUnits; ++u)
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const Unit unit(codes_at<format>(w + vector_at(v, 4, apart), part * kUnits + u));
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) sum[v][r] = dot(sum[v][r], unit, x + u * R + r);
    }
#endif
}

// The sums of blocks, as block_format() says, in order: sum[vector][row] of R rows and V vectors of outputs from `lane`
// of the panel w on (and, of all, of the one `apart` bytes behind). What a block sums to before it meets d and least is
// a whole number, exact.
template <PackedFormat format, int R, int V>
[[gnu::noinline]] void add_blocks(const QuantizedProduct& p, const uint32_t* x, const int32_t* sums, const uint8_t* w,
                                  int64_t lane, int64_t apart, Vec (&out)[V][R]) {
  constexpr BlockLayout kLayout(format);
  constexpr BlockFormat f = kLayout.format;
  constexpr int kUnits = int(f.group) / 4, kPieces = int(f.inputs / 32), kGroups = int(kLayout.groups());
  Vec total[V][R];
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v)
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) total[v][r] = Vec{};
  for (int64_t b = 0; b < p.K / f.inputs; ++b, w += kLayout.bytes()) {
    // What a table of numbers of so many bytes has for vector v.
    const auto at = [&](int v, int64_t table, int64_t size) {
      return w + table + lane * size + vector_at(v, size, apart);
    };
    const auto of_group = [&](int v, int64_t table, int64_t group) {
      return ints(reinterpret_cast<const int8_t*>(at(v, table + group * kPanel, 1)));
    };
    IntVec whole[V][R];
    const int32_t* of_groups = sums;
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v)
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) whole[v][r] = IntVec{};
#pragma GCC unroll 1
    for (int piece = 0; piece < kPieces; ++piece)
#pragma GCC unroll 8
      for (int part = 0; part < 32 / int(f.group); ++part, x += kUnits * R, sums += R) {
        IntVec sum[V][R];
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v)
#pragma GCC unroll 16
          for (int r = 0; r < R; ++r) sum[v][r] = f.minimums ? IntVec{} : IntVec{} + sums[r];
        add_group<format, R, V>(x, at(0, kLayout.pieces_at() + piece * kLayout.piece_bytes(), 4), apart, part, sum);
        const int64_t group = piece * (32 / f.group) + part;
#pragma GCC unroll 8
        for (int v = 0; v < V; ++v) {
          const IntVec scale = f.scales ? of_group(v, kLayout.scales_at(), group) : IntVec{} + 1;
#pragma GCC unroll 16
          for (int r = 0; r < R; ++r) whole[v][r] += sum[v][r] * scale;
        }
      }
#pragma GCC unroll 8
    for (int v = 0; v < V; ++v) {
      const Vec d = halves(at(v, kLayout.d_at(), 2));
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) total[v][r] += __builtin_convertvector(whole[v][r], Vec) * d;
      if constexpr (f.minimums) {
        Vec minimums[R];
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) minimums[r] = Vec{};
#pragma GCC unroll 8
        for (int group = 0; group < kGroups; ++group) {
          const Vec minimum = __builtin_convertvector(of_group(v, kLayout.minimums_at(), group), Vec);
#pragma GCC unroll 16
          for (int r = 0; r < R; ++r) minimums[r] += minimum * float(of_groups[group * R + r]);
        }
        const Vec least = halves(at(v, kLayout.least_at(), 2));
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) total[v][r] -= least * minimums[r];
      }
    }
  }
#pragma GCC unroll 8
  for (int v = 0; v < V; ++v)
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) out[v][r] = total[v][r];
}

}  // namespace
}  // namespace lithe::kernels::cpu::LITHE_ISA
