// Products of attention on matrix tiles (cpu/tile.h). Queries in a panel, keys, weights and their gradients lie as the
// vectors of two bf16 read them, which is as tiles do; rows that are summed over keys are turned, once for all panels.
#pragma once

#include <cstring>

#include "lithe/kernels/attention/cpu_tiles.h"
#include "lithe/kernels/cpu/tile_block.h"

namespace lithe::kernels::cpu::LITHE_ISA {

struct Tiles : Words {
  using Session = tile::Session;
};
/// bf16 on tiles; widths are whole steps of 32 (kTileWidth), at most kWidestOnTiles.
struct Tiled {
  using T = bf16;
  using Dot = Tiles;
  static constexpr bool kDecodes = false;
};
static_assert(kPanel == tile::kBlock);
constexpr int64_t kWords = tile::kWords;

/// to [rows][kPanel] = from (null: 0) + a [rows][depth] b [depth][kPanel]; rows are whole tiles, depth (words of two k)
/// whole steps.
inline void multiply_panel(int64_t rows, int64_t depth, const float* a, int64_t lda, const float* b, const float* from,
                           float* to) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(b);
  for (int64_t m = 0; m < rows; m += tile::kBlock) {
    const tile::PanelRows of_a{reinterpret_cast<const uint8_t*>(a + m * lda), lda * 4, lda * 4 * tile::kRows,
                               tile::kRowBytes};
    tile::multiply<tile::Bf16>(rows - m <= tile::kRows ? 1 : 2, {of_a,
                                                                 bytes,
                                                                 depth / kWords,
                                                                 nullptr,
                                                                 bytes,
                                                                 1,
                                                                 {from ? from + m * kPanel : nullptr, kPanel},
                                                                 {to + m * kPanel, kPanel}});
  }
}

[[gnu::always_inline]] inline int64_t whole_tiles(int64_t rows) {
  return (rows + tile::kRows - 1) / tile::kRows * tile::kRows;
}

// The half that sees fewer keys is not left out: a block of tiles would have to be cut.
inline void multiply_keys(Tiles, int64_t rows, int64_t, int64_t depth, const float* a, int64_t lda, const float* b,
                          float* logits) {
  const int64_t whole = rows / tile::kRows * tile::kRows, rest = rows - whole;
  multiply_panel(whole, depth, a, lda, b, nullptr, logits);
  if (!rest) return;
  alignas(64) float last[tile::kRows * kWidestOnTiles / 2];  // there may be no memory behind the rows
  for (int64_t i = 0; i < rest; ++i)
    std::memcpy(last + i * depth, a + (whole + i) * lda, size_t(depth) * sizeof(float));
  std::memset(last + rest * depth, 0, size_t((tile::kRows - rest) * depth) * sizeof(float));
  multiply_panel(tile::kRows, depth, last, depth, b, nullptr, logits + whole * kPanel);
}

template <Start kStart>
void sum_over_keys(Tiles, int64_t cols, int64_t low, int64_t depth, const float* a, int64_t lda, float* weights,
                   float* sums, const float* factor = nullptr) {
  static_assert(kStart != Start::zero);
  for (int64_t k = low; k < depth; ++k) std::memset(weights + k * kPanel, 0, kHalf * sizeof(float));
  const int64_t whole = whole_tiles(depth);
  std::memset(weights + depth * kPanel, 0, size_t((whole - depth) * kPanel) * sizeof(float));
  if constexpr (kStart == Start::scale) {
    bool same = true;  // as long as the maximum stays
    for (int i = 0; i < kPanel; ++i) same = same && factor[i] == 1.0f;
    if (!same)
      for (int64_t i = 0; i < cols * kPanel; i += kLanes) store(sums + i, load(sums + i) * load(factor + i % kPanel));
  }
  multiply_panel(cols, whole, a, lda, weights, sums, sums);
}

inline void sum_over_queries(Tiles, int64_t rows, int64_t, int64_t cols, float* weights, const float* lines,
                             float* sums) {
  static_assert(kPanel == 2 * kWords);
  const int64_t whole = whole_tiles(rows), row = cols * 4;
  std::memset(weights + rows * kWords, 0, size_t((whole - rows) * kWords) * sizeof(float));
  for (int64_t m = 0; m < whole; m += tile::kRows) {
    tile::load<4>(weights + m * kWords, tile::kRowBytes);
    for (int64_t n = 0; n < cols; n += 2 * kWords) {
      float* c = sums + m * cols + n;
      tile::load<6>(lines + n, row);
      tile::load<0>(c, row);
      tile::dot_bf16<0, 4, 6>();
      tile::load<7>(lines + n + kWords, row);
      tile::load<1>(c + kWords, row);
      tile::dot_bf16<1, 4, 7>();
      tile::store<0>(c, row);
      tile::store<1>(c + kWords, row);
    }
  }
}

// Word j of a column is of keys 2j and 2j + 1; a step that begins at any of them ends in zeros.
[[gnu::always_inline]] inline int64_t stride_over_keys(Tiles, int64_t keys, int64_t) { return keys / 2 + kWords; }
[[gnu::always_inline]] inline const float* over_keys(Tiles, const float* a, int64_t, int64_t skip) {
  return a + skip / 2;
}
inline void lay_over_keys(Tiles, const bf16* from, int64_t stride, int64_t rows, int64_t cols, int64_t keys,
                          float* to) {
  const int64_t words = stride_over_keys(Tiles{}, keys, cols);
  for (int64_t j = 0; j < words; j += kLanes)
    for (int64_t c = 0; c < cols; c += kLanes) {
      Vec r[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        const int64_t key = 2 * (j + i);
        // The bits of widened bf16 are the number shifted up by 16.
        const auto bits = [&](int64_t k) __attribute__((always_inline)) {
          return k < rows ? reinterpret_cast<WordVec>(load(from + k * stride + c)) : WordVec{};
        };
        r[i] = reinterpret_cast<Vec>(bits(key) >> 16 | bits(key + 1));
      }
      transpose(r);
      for (int i = 0; i < kLanes; ++i) store(to + (c + i) * words + j, r[i]);
    }
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
