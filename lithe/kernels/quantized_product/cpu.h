// What the vector kernels of integer products are given: plain pointers and sizes.
#pragma once

#include "lithe/kernels/quantized_product/quantized_product.h"

namespace lithe::kernels {

/// y = D(Q(x)) w^T + bias, as QuantizedProductArgs says.
struct QuantizedProduct {
  const QuantizedProductArgs* args;
  int64_t M, N, K;
  const uint8_t* w;
  const float* w_scales;                                   // int8; else null
  const float* bias;                                       // or null
  int64_t group, groups, units, panel_bytes, group_bytes;  // of blocks group_bytes is a block's
  void* workspace;  // 64-byte aligned, of the size below; the same for all products of one x
};

/// Products of one x.
struct QuantizedProducts {
  std::span<const QuantizedProduct> all;
};
inline Cost cost(const QuantizedProducts& products) {
  Cost sum;
  for (const QuantizedProduct& p : products.all) sum += cost(*p.args);
  return sum;
}

struct PackedGather {
  const PackedGatherArgs* args;
  PackedFormat format;
  int64_t N, K;
  const uint8_t* w;
  const float* w_scales;                    // int8; else null
  int64_t group, panel_bytes, group_bytes;  // as above
};
inline Cost cost(const PackedGather& g) { return cost(*g.args); }

/// Whether codes are so small that sums of some of their products with rounded inputs fit 16 bits.
constexpr bool small_codes(PackedFormat format) {
  return format == PackedFormat::int4 ||
         (in_blocks(format) && block_format(format).low == 4 && !block_format(format).table);
}

/// The rounded rows in `words` of 32 bits for 4 inputs, their sums a group, and their steps.
inline int64_t quantized_workspace(const PackedMatrix& w, int64_t M, int64_t words) {
  return M * (w.units() * words + w.groups() + 1) * 4;
}

/// Whether the groups of a format have whole scales, so that a block sums to a whole number.
[[gnu::always_inline]] constexpr bool whole_scales(PackedFormat format) { return block_format(format).scales; }

/// The same on tiles: rows in blocks of 32 and steps of 64 inputs (of int4 and of blocks without whole scales a group:
/// its own), their sums (of whole scales: a block's) and their steps, and, for each thread, sums of some panels, an
/// unpacked panel, or a block with the sums of kScaledRows rows. Sizes in bytes.
constexpr int64_t kTileGroupPanels = 8;
struct QuantizedTiles {
  int64_t steps_of_row, rows, sums, steps, thread, bytes;
  int64_t codes = 0, scales = 0, totals = 0;  // parts of an unpacked panel

  static constexpr int64_t kRowsTogether = 128, kScaledRows = 512;
  static constexpr int64_t kBlockInputs = 256, kSumsOfRow = 32;  // a row's sums over a block
  static constexpr int64_t kScaledBytes =
      2 * 32 * kBlockInputs + 2 * 1024 + 4 * 32 * 4 + 6 * 1024;  // cpu_scaled_tiles.h
  static constexpr int64_t kPage = 4096;  // rows and what threads scale lie alike in their pages: see Scaling
  QuantizedTiles(const PackedMatrix& w, int64_t M, int threads) {
    const auto up = [](int64_t n, int64_t to) { return (n + to - 1) / to * to; };
    const bool scaled = whole_scales(w.format), grouped = w.group && !scaled;
    steps_of_row = grouped ? w.groups() : (w.inputs + 63) / 64;
    rows = up(M, 32) * steps_of_row * 64;
    sums = scaled ? up(M, 16) * (w.inputs / kBlockInputs) * kSumsOfRow + 64 : up(M, 16) * 4;
    steps = up(rows + sums + M * 4, kPage) - rows - sums;
    if (grouped)
      codes = up(w.groups() * w.group, 64) * 32, scales = w.groups() * 32 * 4, totals = kRowsTogether * 32 * 4;
    constexpr int64_t kBuffers = 2 * 1024;
    thread = scaled    ? up(kScaledBytes + up(M < kScaledRows ? M : kScaledRows, 32) * 32 * 4, kPage)
             : grouped ? codes + scales + totals + kBuffers
                       : kTileGroupPanels * 4096;
    bytes = rows + sums + steps + threads * thread;
  }
};

}  // namespace lithe::kernels

LITHE_DECLARE_CPU(quantized_products, QuantizedProducts)
LITHE_DECLARE_TILES(quantized_tiles, QuantizedProducts)
LITHE_DECLARE_CPU(packed_gather, PackedGather)
