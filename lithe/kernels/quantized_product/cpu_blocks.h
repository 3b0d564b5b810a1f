// Products with weights in the blocks of GGUF files.
#pragma once

#include "lithe/kernels/cpu/bytes.h"
#include "lithe/kernels/quantized_product/cpu_tile.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

// kLanes finite numbers of f16.
[[gnu::always_inline]] inline Vec halves(const uint8_t* p) {
  const WordVec bits = __builtin_convertvector(load_bits<HalfVec>(p), WordVec);
  const Vec size = floats((bits & 0x7fff) << 13) * 0x1p112f;  // f32 with the exponent of f16, subnormal ones too
  return floats((WordVec)size | (bits & 0x8000) << 16);
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

// The bytes of unit u of a piece: small codes, or values, + 128 where products take unsigned bytes of any size.
template <PackedFormat format>
[[gnu::always_inline]] inline WordVec codes_at(const uint8_t* piece, int u) {
  constexpr uint32_t kTopBits = 0x80808080;
  constexpr BlockFormat f = block_format(format);
  const uint8_t* at = piece + (f.low == 8 ? u : u / 2) * kUnitBytes;
  if (f.low == 8 || u % 2 == 0) __builtin_prefetch(at + kAhead);
  const WordVec word = load_bits<WordVec>(at);
  if constexpr (f.low == 8) return kPairs ? word ^ kTopBits : word;
  const WordVec low = (u % 2 ? word >> 4 : word) & 0x0f0f0f0f;
  const auto more = [&](int i) { return load_bits<WordVec>(piece + (4 + i) * kUnitBytes); };
  if constexpr (f.table) return kPairs ? looked_up(low) : looked_up(low) ^ kTopBits;
  if constexpr (f.high == 1) return low | upper_bits<1>(more(0), u);
  if constexpr (f.high == 2) return low | upper_bits<2>(more(u / 4), u % 4 * 2);
  return low;
}

// sum += the products of R rows of words x with kLanes outputs of a group of each stream of weights, from its piece on.
template <PackedFormat format, int R, int S>
[[gnu::always_inline]] inline void add_group(const uint32_t* x, Streams w, int part, IntVec (&sum)[R * S]) {
  constexpr BlockFormat f = block_format(format);
  constexpr int kUnits = int(f.group) / 4;
#if defined(__AVX2__) && !defined(__AVX512VNNI__)
  if constexpr (small_codes(format)) {
    constexpr int kTogether = 8 >> f.high;  // units whose sums of pairs stay in 16 bits: 8 * 2 * 15 * 127 < 2^15
#pragma GCC unroll 4
    for (int first = 0; first < kUnits; first += kTogether) {
      Integers words[R * S];
#pragma GCC unroll 16
      for (int r = 0; r < R * S; ++r) words[r] = Integers{};
#pragma GCC unroll 8
      for (int u = first; u < first + kTogether; ++u)
#pragma GCC unroll 8
        for (int s = 0; s < S; ++s) {
          const auto codes = (Integers)codes_at<format>(w.w + s * w.apart, part * kUnits + u);
#pragma GCC unroll 16
          for (int r = 0; r < R; ++r) {
            Integers& to = words[s * R + r];
            to = add_words(to, pairs_of_bytes(codes, (Integers)repeat(x[u * R + r])));
          }
        }
#pragma GCC unroll 16
      for (int r = 0; r < R * S; ++r) sum[r] += (IntVec)pairs_of_words(words[r], ones());
    }
    return;
  }
#pragma GCC unroll 8
  for (int u = 0; u < kUnits; ++u)
#pragma GCC unroll 8
    for (int s = 0; s < S; ++s) {
      const auto values = (Integers)codes_at<format>(w.w + s * w.apart, part * kUnits + u), sizes = magnitudes(values);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
        sum[s * R + r] +=
            (IntVec)pairs_of_words(pairs_of_bytes(sizes, with_signs((Integers)repeat(x[u * R + r]), values)), ones());
    }
#else
#pragma GCC unroll 8
  for (int u = 0; u < kUnits; ++u)
#pragma GCC unroll 8
    for (int s = 0; s < S; ++s) {
      const Unit unit(codes_at<format>(w.w + s * w.apart, part * kUnits + u));
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) sum[s * R + r] = dot(sum[s * R + r], unit, x + u * R + r);
    }
#endif
}

// sum = the products of the groups with kLanes outputs from `lane` of the panel on, as block_format() says, in order.
template <PackedFormat format, int R, int S>
[[gnu::noinline]] void add_blocks(const QuantizedProduct& p, const uint32_t* x, const int32_t* sums, Streams w,
                                  int64_t lane, Vec (&out)[R * S]) {
  constexpr BlockLayout kLayout(format);
  constexpr BlockFormat f = kLayout.format;
  constexpr int kUnits = int(f.group) / 4, kPieces = int(f.inputs / 32);
  Vec total[R * S];
#pragma GCC unroll 16
  for (int r = 0; r < R * S; ++r) total[r] = Vec{};
  for (int64_t b = 0; b < p.K / f.inputs; ++b, w.w += kLayout.bytes()) {
    // A table of numbers of so many bytes before the pieces, from the lanes of stream s on.
    const auto head = [&](int s, int64_t table, int64_t size) {
      return (w.outputs ? w.w : w.w + s * w.apart) + table + (lane + s * w.outputs) * size;
    };
    Vec d[S], least[S];
#pragma GCC unroll 8
    for (int s = 0; s < S; ++s) {
      d[s] = halves(head(s, kLayout.d_at(), 2));
      if constexpr (f.minimums) least[s] = halves(head(s, kLayout.least_at(), 2));
    }
#pragma GCC unroll 1
    for (int piece = 0; piece < kPieces; ++piece)
#pragma GCC unroll 8
      for (int part = 0; part < 32 / int(f.group); ++part, x += kUnits * R, sums += R) {
        IntVec sum[R * S];
#pragma GCC unroll 16
        for (int r = 0; r < R * S; ++r) sum[r] = f.minimums ? IntVec{} : IntVec{} + sums[r % R];
        add_group<format, R, S>(x, {w.w + kLayout.pieces_at() + piece * kLayout.piece_bytes() + lane * 4, w.apart},
                                part, sum);
        const int64_t group = piece * (32 / f.group) + part;
#pragma GCC unroll 8
        for (int s = 0; s < S; ++s) {
          const auto of_group = [&](int64_t table) {
            return load(reinterpret_cast<const int8_t*>(head(s, table + group * kPanel, 1)));
          };
          Vec scale = d[s], minimum{};
          if constexpr (f.scales) scale *= of_group(kLayout.scales_at());
          if constexpr (f.minimums) minimum = least[s] * of_group(kLayout.minimums_at());
#pragma GCC unroll 16
          for (int r = s * R; r < (s + 1) * R; ++r) {
            total[r] += __builtin_convertvector(sum[r], Vec) * scale;
            if constexpr (f.minimums) total[r] -= minimum * float(sums[r - s * R]);
          }
        }
      }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R * S; ++r) out[r] = total[r];
}

template <PackedFormat format, int R, int S>
[[gnu::always_inline]] inline void tile_blocks(const QuantizedProduct& p, const uint32_t* x, const int32_t* sums,
                                               Streams w, int64_t column, Tile<R * S>& out) {
#pragma GCC unroll 1
  for (int v = 0; v < kVectors; ++v) {
    Vec sum[R * S];
    add_blocks<format, R, S>(p, x, sums, w, column + v * kLanes, sum);
#pragma GCC unroll 16
    for (int r = 0; r < R * S; ++r) out.sum[r][v] = sum[r];
  }
}

}  // namespace
}  // namespace lithe::kernels::cpu::LITHE_ISA
