// Products on tiles with blocks whose groups have whole scales: codes times scales are whole numbers, too, and what a
// row sums to over a block is exact. A product is two bytes, each a matrix for tiles.
#pragma once

#include "lithe/kernels/cpu/tile_block.h"
#include "lithe/kernels/quantized_product/cpu_blocks.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

constexpr int64_t kPanelVectors = kPanel / kLanes;
constexpr int kBlockTiles = int(QuantizedTiles::kBlockInputs / tile::kRowBytes);  // of 16 rows, or of 16 outputs
constexpr int64_t kSumsOfRow = QuantizedTiles::kSumsOfRow;

// A block of a panel's 32 outputs, in workspace: codes times scales in two bytes, [half of the outputs][unit][output]
// [4]; minimums as store_sums() has sums, bf16 in pairs [half][16][output]; d and least [output], beside those of the
// block before.
struct ScaledBlock {
  uint8_t *low, *high, *minimums;
  float *d, *least;  // [2][output]
  int32_t* sums;     // scratch: [2][low, high, minimums][16][16]
  float* totals;     // [row][output]

  static constexpr int64_t kHalf = kBlockTiles * tile::kBytes, kSum = 256, kSumsOfTile = 3 * kSum;
  explicit ScaledBlock(uint8_t* at)
      : low(at),
        high(low + 2 * kHalf),
        minimums(high + 2 * kHalf),
        d(reinterpret_cast<float*>(minimums + 2 * tile::kBytes)),
        least(d + 2 * kPanel),
        sums(reinterpret_cast<int32_t*>(least + 2 * kPanel)),
        totals(reinterpret_cast<float*>(sums + 2 * kSumsOfTile)) {
    std::memset(minimums, 0, 2 * tile::kBytes);  // sums of rows are followed by those of other rows
  }
};
static_assert(QuantizedTiles::kScaledBytes ==
              4 * ScaledBlock::kHalf + 2 * tile::kBytes + 4 * kPanel * 4 + 2 * ScaledBlock::kSumsOfTile * 4);

// Whole numbers below 2^13 as bf16, pairs in words.
[[gnu::always_inline]] inline uint32_t bf16_of(int32_t x) { return __builtin_bit_cast(uint32_t, float(x)) >> 16; }
// Pair i of sums of 32 inputs, below 2^12, of a row: upper and lower parts that are bf16, [part][pair].
[[gnu::always_inline]] inline void store_sums(int32_t first, int32_t second, int64_t i, uint8_t* row) {
  const int32_t upper[] = {(first + 32) >> 6 << 6, (second + 32) >> 6 << 6};
  const uint32_t pairs[] = {bf16_of(upper[0]) | bf16_of(upper[1]) << 16,
                            bf16_of(first - upper[0]) | bf16_of(second - upper[1]) << 16};
  for (int64_t part = 0; part < 2; ++part) std::memcpy(row + (part * kBlockTiles + i) * 4, &pairs[part], 4);
}

// A code times its scale is low + 2^kUpper high, each a byte: without an offset, codes times the lower and the upper
// bits of the scale, below 256; else the bytes of the product.
template <PackedFormat format>
constexpr int kUpper = block_format(format).offset ? 8 : 4 - block_format(format).high;
struct Products {
  WordVec low, high;
};
// Codes of kLanes outputs, and their scales in 16 bits each.
template <PackedFormat format>
[[gnu::always_inline]] inline Products times(WordVec codes, Halves scales) {
  constexpr int kOffset = block_format(format).offset, kBits = kUpper<format>;
  if constexpr (!kOffset) {  // two products of bytes in 16 bits: none reaches the next one
    const Halves lower = scales & uint16_t((1 << kBits) - 1), upper = scales >> kBits;
    return {(WordVec)((Halves)codes * lower), (WordVec)((Halves)codes * upper)};
  }
#ifdef __AVX512BW__  // products of bytes in pairs, of which one has the scale 0
  const auto product = [&](Halves of) { return (Halves)_mm512_maddubs_epi16((__m512i)codes, (__m512i)of); };
  Halves even = product(scales & 0xff), odd = product(scales << 8);
#else
  Halves even = (Halves)(codes & 0x00ff00ff) * scales, odd = ((Halves)codes >> 8) * scales;
#endif
  even -= scales * uint16_t(kOffset), odd -= scales * uint16_t(kOffset);
  return {(WordVec)((even & 0xff) | odd << 8), (WordVec)(even >> 8 | (odd & 0xff00))};
}

// What block w of a panel has for each of its outputs; d and least at `outputs`.
template <PackedFormat format>
[[gnu::always_inline]] inline void read_outputs(const uint8_t* w, int64_t outputs, const ScaledBlock& to) {
  constexpr BlockLayout kLayout(format);
  constexpr bool kMinimums = kLayout.format.minimums;
  for (int64_t lane = 0; lane < kPanel; lane += kLanes) {
    store(to.d + outputs + lane, halves(w + kLayout.d_at() + lane * 2));
    if constexpr (kMinimums) {
      store(to.least + outputs + lane, halves(w + kLayout.least_at() + lane * 2));
      uint8_t* minimums = to.minimums + lane / 16 * tile::kBytes + lane % 16 * 4;
      for (int64_t pair = 0; pair < kBlockTiles; ++pair, minimums += tile::kRowBytes) {
        const auto bits = [&](int64_t group) {
          const auto* at = reinterpret_cast<const int8_t*>(w + kLayout.minimums_at() + group * kPanel + lane);
          return (WordVec) __builtin_convertvector(ints(at), Vec);
        };
        const WordVec both = bits(2 * pair) >> 16 | bits(2 * pair + 1);
        store_bits(minimums, both), store_bits(minimums + kBlockTiles * tile::kRowBytes, both);
      }
    }
  }
}

// Step s of block w of a panel. That of the block after it is asked for.
template <PackedFormat format>
[[gnu::noinline]] void scale_step(const uint8_t* w, int64_t s, const ScaledBlock& to) {
  constexpr BlockLayout kLayout(format);
  constexpr int kUnits = int(kLayout.format.group) / 4, kParts = 8 / kUnits;
  constexpr int64_t kPieces = tile::kRowBytes / BlockLayout::kPiece,
                    kLines = kLayout.bytes() / (64 * kBlockTiles * kPieces * kPanelVectors) + 1;
  const uint8_t* next = w + kLayout.bytes() + s * (kPieces * kPanelVectors * kLines * 64);
  for (int64_t lane = 0; lane < kPanel; lane += kLanes) {
    uint8_t *low = to.low + lane / 16 * ScaledBlock::kHalf + s * tile::kBytes + lane % 16 * 4,
            *high = low + (to.high - to.low);
#pragma GCC unroll 1
    for (int64_t piece = s * kPieces; piece < (s + 1) * kPieces; ++piece) {
      const uint8_t* from = w + kLayout.pieces_at() + piece * kLayout.piece_bytes() + lane * 4;
#pragma GCC unroll 8
      for (int64_t i = 0; i < kLines; ++i, next += 64) __builtin_prefetch(next, 0, 2);
#pragma GCC unroll 2
      for (int part = 0; part < kParts; ++part) {
        const uint8_t* scales_at = w + kLayout.scales_at() + (piece * kParts + part) * kPanel + lane;
        const WordVec scale = (WordVec)ints(reinterpret_cast<const int8_t*>(scales_at)) & 0xffff;
        const Halves scales = (Halves)(scale | scale << 16);
#pragma GCC unroll 8
        for (int u = 0; u < kUnits; ++u, low += tile::kRowBytes, high += tile::kRowBytes) {
          const Products products = times<format>(codes_at<format, false>(from, part * kUnits + u), scales);
          store_bits(low, products.low), store_bits(high, products.high);
        }
      }
    }
  }
}

// What two times 16 rows by 16 outputs have summed to over a block: other rows, or other outputs. Totals [row][output
// of the panel].
struct BlockSums {
  const int32_t* sums = nullptr;
  const float *d = nullptr, *least = nullptr;
  float* totals = nullptr;
  int64_t next_outputs = 0, next_totals = 0;  // of the second 16, from the first
};
// totals += the sums of part i of kBlockTiles of the rows.
template <PackedFormat format>
[[gnu::always_inline]] inline void add_rows(const BlockSums& from, int i) {
  constexpr bool kMinimums = block_format(format).minimums;
  constexpr int kRows = tile::kRows / kBlockTiles;
  const int32_t* sums = from.sums + i * kRows * 16;
  const float *d = from.d, *least = from.least;
  float* totals = from.totals + i * kRows * kPanel;
  for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 4
    for (int v = 0; v < 16; v += kLanes) {
      const Vec scale = load(d + v), minimum = kMinimums ? load(least + v) : Vec{};
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const int32_t* at = sums + r * 16 + v;
        const IntVec whole = load_bits<IntVec>(at) + (load_bits<IntVec>(at + ScaledBlock::kSum) << kUpper<format>);
        Vec sum = load(totals + r * kPanel + v) + __builtin_convertvector(whole, Vec) * scale;
        if constexpr (kMinimums) sum -= minimum * load_bits<Vec>(at + 2 * ScaledBlock::kSum);
        store(totals + r * kPanel + v, sum);
      }
    }
    sums += ScaledBlock::kSumsOfTile, d += from.next_outputs, least += from.next_outputs, totals += from.next_totals;
  }
}

// Scaled while a block is multiplied: its own steps from kSoon on, and those before kSoon of the block after it. So the
// addresses that are stored differ, modulo 4096, from those of the scaled tiles that are loaded: else a load would wait
// for a store.
struct Scaling {
  static constexpr int kSoon = 2;
  const uint8_t *here = nullptr, *next = nullptr;
};

// The sums of a block: of 32 rows (packed for tiles) by outputs [output, output + 16) of the panel, or (kRowTiles = 1)
// of 16 rows by all. Meanwhile those that were made before are added up: tiles take long to be stored and read.
template <PackedFormat format, int kRowTiles>
[[gnu::always_inline]] inline void multiply_scaled(const uint8_t* a, const uint8_t* row_sums, const ScaledBlock& w,
                                                   int64_t output, const BlockSums& before, const Scaling& scaling) {
  constexpr bool kRows = kRowTiles == 2, kMinimums = block_format(format).minimums;
  const int64_t half = output / 16;
  const uint8_t *low = w.low + half * ScaledBlock::kHalf, *high = w.high + half * ScaledBlock::kHalf;
  const auto put = [&]<int T>(int64_t second, int64_t i) __attribute__((always_inline)) {
    tile::store<T>(w.sums + second * ScaledBlock::kSumsOfTile + i * ScaledBlock::kSum, tile::kRowBytes);
  };
  const auto dot_high = []<int C, int A, int B>() __attribute__((always_inline)) {
    if constexpr (block_format(format).offset)
      tile::dot_i8_i8<C, A, B>();
    else
      tile::dot_i8_u8<C, A, B>();
  };
  tile::zero<0>(), tile::zero<1>(), tile::zero<2>(), tile::zero<3>();
  for (int s = 0; s < kBlockTiles; ++s, a += kRowTiles * tile::kBytes, low += tile::kBytes, high += tile::kBytes) {
    tile::load<4>(a, tile::kRowBytes);
    tile::load<6>(low, tile::kRowBytes);
    tile::dot_i8_u8<0, 4, 6>();
    tile::load<7>(high, tile::kRowBytes);
    dot_high.template operator()<1, 4, 7>();
    if constexpr (kRows) {
      tile::load<5>(a + tile::kBytes, tile::kRowBytes);
      tile::dot_i8_u8<2, 5, 6>();
      dot_high.template operator()<3, 5, 7>();
    } else {
      tile::load<5>(low + ScaledBlock::kHalf, tile::kRowBytes);
      tile::dot_i8_u8<2, 4, 5>();
      tile::load<6>(high + ScaledBlock::kHalf, tile::kRowBytes);
      dot_high.template operator()<3, 4, 6>();
    }
    if (const uint8_t* block = s + Scaling::kSoon < kBlockTiles ? scaling.here : scaling.next)
      scale_step<format>(block, (s + Scaling::kSoon) % kBlockTiles, w);
    if (before.sums) add_rows<format>(before, s);
  }
  put.template operator()<0>(0, 0), put.template operator()<1>(0, 1);
  put.template operator()<2>(1, 0), put.template operator()<3>(1, 1);
  if constexpr (kMinimums) {
    tile::zero<0>(), tile::zero<2>();
    tile::load<4>(row_sums, kSumsOfRow);
    tile::load<6>(w.minimums + half * tile::kBytes, tile::kRowBytes);
    tile::dot_bf16<0, 4, 6>();
    if constexpr (kRows) {
      tile::load<5>(row_sums + 16 * kSumsOfRow, kSumsOfRow);
      tile::dot_bf16<2, 5, 6>();
    } else {
      tile::load<7>(w.minimums + tile::kBytes, tile::kRowBytes);
      tile::dot_bf16<2, 4, 7>();
    }
    put.template operator()<0>(0, 2), put.template operator()<2>(1, 2);
  }
}

}  // namespace
}  // namespace lithe::kernels::cpu::LITHE_ISA
