// Products with integer weights on tiles (cpu/tile.h). Rows rounded to 8 bits lie in panels for tiles; weights of 8
// bits are read where they lie, as unsigned bytes. Those that have a scale a group of inputs are unpacked: where scales
// are whole, a block of 32 outputs at a time (cpu_scaled_tiles.h); else to signed bytes, a panel of 32 outputs at a
// time, and each group is a step whose sums are scaled before they are added up.
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/tile_block.h"
#include "lithe/kernels/quantized_product/cpu_blocks.h"
#include "lithe/kernels/quantized_product/cpu_rows.h"
#include "lithe/kernels/quantized_product/cpu_scaled_tiles.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

using tile::kBlock, tile::least, tile::kBytes, tile::kStepBytes, tile::kRowBytes;
constexpr int64_t kSum = kBlock * kBlock;
constexpr int64_t kBlockSteps = 8;             // of a panel of rows in the first cache: 16 KiB, and as much of weights
constexpr int64_t kPanels = kTileGroupPanels;  // whose sums stay in cache
constexpr int64_t kNear = 2;                   // steps that weights are asked for ahead

// Blocks of 32 rows, the last of 16 where no more exist.
struct RowPanels {
  uint8_t* data;
  int32_t* sums;        // [M] of the integers
  uint8_t* block_sums;  // in place of them where groups have whole scales: [K / 256, M, kSumsOfRow]
  float* steps;         // [M]
  uint8_t* threads;
  int64_t M, count, panel_bytes;  // count: steps of a panel

  RowPanels(const QuantizedProduct& p, const QuantizedTiles& w)
      : data(static_cast<uint8_t*>(p.workspace)),
        sums(reinterpret_cast<int32_t*>(data + w.rows)),
        block_sums(data + w.rows),
        steps(reinterpret_cast<float*>(data + w.rows + w.sums)),
        threads(data + w.rows + w.sums + w.steps),
        M(p.M),
        count(w.steps_of_row),
        panel_bytes(w.steps_of_row * kStepBytes) {}
  int64_t blocks() const { return (M + kBlock - 1) / kBlock; }
  int64_t rows_of(int64_t block) const { return least(M - block * kBlock, kBlock); }
  int tiles_of(int64_t block) const { return rows_of(block) <= 16 ? 1 : 2; }
  // The 64 bytes of a row in a step.
  uint8_t* at(int64_t m, int64_t step) const {
    const int64_t block = m / kBlock, r = m % kBlock;
    return data + block * panel_bytes + (step * tiles_of(block) + r / 16) * kBytes + r % 16 * kRowBytes;
  }
  // Sums that are read beside those of the last row must be numbers.
  void clear_after_sums() const {
    const int64_t blocks = count / kBlockTiles;
    for (int64_t b = 0; b < blocks; ++b) std::memset(sums_at(M, b), 0, size_t((16 - M % 16) % 16 * kSumsOfRow));
    std::memset(sums_at(0, blocks), 0, size_t(kSumsOfRow));
  }
  uint8_t* sums_at(int64_t m, int64_t block) const {
    return block_sums + (block * ((M + 15) / 16 * 16) + m) * kSumsOfRow;
  }
};

// Where a group has fewer than 64 inputs, several share a step of weights: the row has zeros in the places of the
// others.
template <class T>
void quantize_row(const QuantizedProduct& p, const RowPanels& to, int64_t m) {
  const T* x = pointer<T>(p.args->x) + m * p.K;
  const RowStep step = step_of(x, p.K);
  to.steps[m] = step.size;
  const bool scaled = whole_scales(p.args->w->format);
  const int64_t in_row = p.group && !scaled ? p.group : kRowBytes;
  IntVec sum{};
  for (int64_t s = 0; s < to.count; ++s) {
    const int64_t first = s * in_row % kRowBytes;
    uint8_t* row = to.at(m, s);
    if (in_row < kRowBytes) std::memset(row, 0, size_t(kRowBytes));
    int32_t half = 0;
    for (int64_t i = 0; i < in_row; i += kLanes) {
      const IntVec q = rounded(x, p.K, s * in_row + i, step);
      if (scaled && i == kRowBytes / 2) half = total_of(sum), sum = IntVec{};
      sum += q;
      const ByteVec bytes = __builtin_convertvector(q, ByteVec);
      std::memcpy(row + first + i, &bytes, sizeof bytes);
    }
    if (scaled) {
      const int32_t second = total_of(sum);
      store_sums(step.zero ? 0 : half, step.zero ? 0 : second, s % kBlockTiles, to.sums_at(m, s / kBlockTiles));
      sum = IntVec{};
    }
  }
  if (!p.group) to.sums[m] = step.zero ? 0 : total_of(sum);
}

// ---- 8 bits

// y of a block of rows and a panel of outputs, from sums of unsigned weights, which are 128 too large.
template <class Out>
void finish_int8(const QuantizedProduct& p, const RowPanels& rows, int64_t block, int64_t panel, const int32_t* sums) {
  for (int64_t r = 0; r < rows.rows_of(block); ++r) {
    const int64_t m = block * kBlock + r;
    const int32_t excess = int32_t(128u * uint32_t(rows.sums[m]));
    for (int64_t i = 0, n = panel * kBlock; i < kBlock && n + i < p.N; i += kLanes) {
      const IntVec sum = load_bits<IntVec>(sums + r * kBlock + i) - excess;
      put<Out>(p, m, n + i, __builtin_convertvector(sum, Vec) * rows.steps[m]);
    }
  }
}

// Panels [begin, end) of weights, at most kPanels.
template <class Out>
void panels_int8(const QuantizedProduct& p, const RowPanels& rows, int64_t begin, int64_t end, int32_t* sums) {
  const tile::PackedPanels w{p.w, p.units};
  alignas(64) uint8_t copy[kStepBytes];
  const int64_t pieces = (rows.count + kBlockSteps - 1) / kBlockSteps;
  for (int64_t block = 0; block < rows.blocks(); ++block) {
    const int tiles = rows.tiles_of(block);
    for (int64_t i = 0; i < pieces; ++i) {
      const int64_t first = rows.count * i / pieces, last = rows.count * (i + 1) / pieces;
      for (int64_t panel = begin; panel < end; ++panel) {
        int32_t* own = sums + (panel - begin) * kSum;
        tile::BlockProduct<int32_t> product{
            tile::packed_rows(rows.data + block * rows.panel_bytes + first * tiles * kBytes, tiles),
            w.at(panel, first),
            last - first,
            nullptr,
            w.at(panel + 1 < end ? panel + 1 : begin, first),
            kNear,
            {first ? own : nullptr, kBlock},
            {own, kBlock}};
        if (last > w.whole_steps()) --product.steps, product.last = w.rest(panel, copy);
        tile::multiply<tile::Bytes>(tiles, product);
        if (last == rows.count) finish_int8<Out>(p, rows, block, panel, own);
      }
    }
  }
}

// ---- scales of groups

// A panel of weights: signed bytes in rows of units, and what groups are multiplied with, [group, output].
struct Unpacked {
  uint8_t* codes;
  float *scales, *totals;
  int32_t* sums;
  Unpacked(uint8_t* at, const QuantizedTiles& w)
      : codes(at),
        scales(reinterpret_cast<float*>(codes + w.codes)),
        totals(scales + w.scales / 4),
        sums(reinterpret_cast<int32_t*>(totals + w.totals / 4)) {}
};
typedef int8_t Codes __attribute__((vector_size(kLanes * 4)));
[[gnu::always_inline]] inline void put_codes(uint8_t* to, WordVec codes, int offset) {
  const Codes values = (Codes)codes - int8_t(offset);
  std::memcpy(to, &values, sizeof values);
}

void unpack_int4(const QuantizedProduct& p, int64_t panel, const Unpacked& to) {
  uint8_t* codes = to.codes;
  for (int64_t g = 0; g < p.groups; ++g) {
    const uint8_t* from = p.w + panel * p.panel_bytes + g * p.group_bytes;
    for (int64_t pair = 0; pair < p.group / 8; ++pair, from += kUnitBytes, codes += 2 * kUnitBytes)
      for (int64_t v = 0; v < kPanelVectors; ++v) {
        const WordVec both = load_bits<WordVec>(from + v * kLanes * 4);
        put_codes(codes + v * kLanes * 4, both & 0x0f0f0f0f, 8);
        put_codes(codes + kUnitBytes + v * kLanes * 4, both >> 4 & 0x0f0f0f0f, 8);
      }
    for (int64_t i = 0; i < kBlock; i += kLanes)
      store(to.scales + g * kBlock + i, load(reinterpret_cast<const bf16*>(from) + i));
  }
}

template <PackedFormat format>
[[gnu::noinline]] void unpack_blocks(const QuantizedProduct& p, int64_t panel, const Unpacked& to) {
  constexpr BlockLayout kLayout(format);
  constexpr BlockFormat f = kLayout.format;
  const uint8_t* w = p.w + panel * p.panel_bytes;
  static_assert(f.inputs == f.group && !f.scales);
  uint8_t* codes = to.codes;
  for (int64_t b = 0; b < p.K / f.inputs; ++b, w += kLayout.bytes()) {
    for (int64_t piece = 0; piece < f.inputs / BlockLayout::kPiece; ++piece)
#pragma GCC unroll 8
      for (int u = 0; u < 8; ++u, codes += kUnitBytes)
        for (int64_t v = 0; v < kPanelVectors; ++v) {
          const uint8_t* from = w + kLayout.pieces_at() + piece * kLayout.piece_bytes() + v * kLanes * 4;
          put_codes(codes + v * kLanes * 4, codes_at<format>(from, u), code_offset(format));
        }
    for (int64_t i = 0; i < kBlock; i += kLanes) store(to.scales + b * kBlock + i, halves(w + kLayout.d_at() + i * 2));
  }
}

// 16 rows by 16 outputs: totals += the sums of groups [begin, end) as they are scaled, in order.
[[gnu::noinline]] void add_groups(const uint8_t* a, int64_t a_step, const Unpacked& w, int64_t column, int64_t begin,
                                  int64_t end, int64_t each, float* totals) {
  constexpr int kVectors16 = 16 / kLanes;
  Vec total[16][kVectors16];
#pragma GCC unroll 16
  for (int r = 0; r < 16; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors16; ++v) total[r][v] = load(totals + r * kBlock + v * kLanes);
  const auto multiply = [&]<int T>(int64_t g) __attribute__((always_inline)) {
    if (g == begin || g % each == 0) tile::load<6>(w.codes + g / each * kStepBytes + column * 4, 2 * kRowBytes);
    tile::zero<T>();
    tile::load<4 + T>(a + (g - begin) * a_step, kRowBytes);
    tile::dot_i8_i8<T, 4 + T, 6>();
    tile::store<T>(w.sums + T * 256, kRowBytes);
  };
  const auto add = [&]<int T>(int64_t g) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors16; ++v) {
      const Vec scale = load(w.scales + g * kBlock + column + v * kLanes);
#pragma GCC unroll 16
      for (int r = 0; r < 16; ++r)
        total[r][v] += __builtin_convertvector(load_bits<IntVec>(w.sums + T * 256 + r * 16 + v * kLanes), Vec) * scale;
    }
  };
  // A tile takes long to be stored and read: meanwhile the group before is added.
  multiply.template operator()<0>(begin);
  for (int64_t g = begin; g < end; g += 2) {
    if (g + 1 < end) multiply.template operator()<1>(g + 1);
    add.template operator()<0>(g);
    if (g + 2 < end) multiply.template operator()<0>(g + 2);
    if (g + 1 < end) add.template operator()<1>(g + 1);
  }
#pragma GCC unroll 16
  for (int r = 0; r < 16; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors16; ++v) store(totals + r * kBlock + v * kLanes, total[r][v]);
}

// y of rows [first, last) and a panel of outputs, from their sums.
template <class Out>
void put_totals(const QuantizedProduct& p, const RowPanels& rows, int64_t first, int64_t last, int64_t panel,
                const float* totals) {
  for (int64_t m = first; m < last; ++m)
    for (int64_t i = 0; i < kBlock && panel * kBlock + i < p.N; i += kLanes)
      put<Out>(p, m, panel * kBlock + i, load(totals + (m - first) * kBlock + i) * rows.steps[m]);
}

// A panel that is unpacked.
template <class Out>
void panel_in_groups(const QuantizedProduct& p, const RowPanels& rows, int64_t panel, const Unpacked& w) {
  // The last step may not be whole: there rows are 0, but weights must be bytes.
  const int64_t inputs = p.groups * p.group, each = kRowBytes / p.group;
  std::memset(w.codes + inputs * kBlock, 0, size_t((kRowBytes - inputs % kRowBytes) % kRowBytes * kBlock));
  constexpr int64_t kGroups = 16;  // whose tiles stay in the first cache
  for (int64_t first = 0; first < rows.M; first += QuantizedTiles::kRowsTogether) {
    const int64_t last = least(first + QuantizedTiles::kRowsTogether, rows.M);
    std::memset(w.totals, 0, size_t((last - first + 15) / 16 * 16 * kBlock * 4));
    for (int64_t g = 0; g < p.groups; g += kGroups)
      for (int64_t m = first; m < last; m += 16)
        for (int64_t column = 0; column < kBlock && panel * kBlock + column < p.N; column += 16) {
          const int64_t a_step = rows.tiles_of(m / kBlock) * kBytes;
          add_groups(rows.at(m, g), a_step, w, column, g, least(g + kGroups, p.groups), each,
                     w.totals + (m - first) * kBlock + column);
        }
    put_totals<Out>(p, rows, first, last, panel, w.totals);
  }
}

template <class Out, PackedFormat format>
[[gnu::noinline]] void panel_scaled(const QuantizedProduct& p, const RowPanels& rows, int64_t panel,
                                    const ScaledBlock& w) {
  const uint8_t* blocks = p.w + panel * p.panel_bytes;
  for (int64_t first = 0; first < rows.M; first += QuantizedTiles::kScaledRows) {
    const int64_t last = least(first + QuantizedTiles::kScaledRows, rows.M);
    std::memset(w.totals, 0, size_t((last - first + 15) / 16 * 16 * kBlock * 4));
    for (int64_t s = 0; s < Scaling::kSoon; ++s) scale_step<format>(blocks, s, w);
    BlockSums before;
    const int64_t count = p.K / QuantizedTiles::kBlockInputs;
    for (int64_t b = 0; b < count; ++b) {
      const int64_t outputs = b % 2 * kPanel;
      const uint8_t* block = blocks + b * p.group_bytes;
      read_outputs<format>(block, outputs, w);
      for (int64_t m = first; m < last; m += kBlock) {
        const uint8_t *a = rows.at(m, b * kBlockTiles), *row_sums = rows.sums_at(m, b);
        const bool all = rows.tiles_of(m / kBlock) == 1;
        for (int64_t output = 0; output < (all ? 16 : kBlock); output += 16) {
          const bool begins = m == first && output == 0, ends = m + kBlock >= last && (all || output != 0);
          const Scaling scaling{begins ? block : nullptr, ends && b + 1 < count ? block + p.group_bytes : nullptr};
          if (all)
            multiply_scaled<format, 1>(a, row_sums, w, output, before, scaling);
          else
            multiply_scaled<format, 2>(a, row_sums, w, output, before, scaling);
          const int64_t column = outputs + output;
          float* totals = w.totals + (m - first) * kPanel + output;
          before = {w.sums, w.d + column, w.least + column, totals, all ? 16 : 0, all ? 16 : 16 * kPanel};
        }
      }
    }
    for (int i = 0; before.sums && i < kBlockTiles; ++i) add_rows<format>(before, i);
    put_totals<Out>(p, rows, first, last, panel, w.totals);
  }
}

template <class T, class Out>
void run(std::span<const QuantizedProduct> products) {
  const QuantizedProduct& one = products[0];  // x, and so M, K and the rounded rows, are the same in all
  const QuantizedTiles w(*one.args->w, one.M, threads());
  const RowPanels rows(one, w);
  const int64_t grain = (1 << 16) / (one.K + 1) + 1;
  parallel(one.M, grain, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t m = begin; m < end; ++m) quantize_row<T>(one, rows, m);
  });
  if (whole_scales(one.args->w->format)) rows.clear_after_sums();
  for (const QuantizedProduct& p : products) {
    const int64_t panels = (p.N + kBlock - 1) / kBlock;
    if (p.group) {
      parallel_items(panels, [=, &p](int64_t panel, int64_t thread) {
        const tile::Session session;
        uint8_t* own = rows.threads + thread * w.thread;
        const Unpacked unpacked(own, w);
        const PackedFormat format = p.args->w->format;
        if (!in_blocks(format)) return unpack_int4(p, panel, unpacked), panel_in_groups<Out>(p, rows, panel, unpacked);
        with_block_format(format, [&]<PackedFormat of>() {
          if constexpr (whole_scales(of)) {
            panel_scaled<Out, of>(p, rows, panel, ScaledBlock(own));
          } else {
            unpack_blocks<of>(p, panel, unpacked);
            panel_in_groups<Out>(p, rows, panel, unpacked);
          }
        });
      });
      continue;
    }
    constexpr int64_t kLeast = 4;  // panels of a part, unless there are few
    const int64_t groups = (panels + kPanels - 1) / kPanels,
                  few = least((panels + kLeast - 1) / kLeast, kTileItems * threads()),
                  parts = groups > few ? groups : few;
    parallel_items(parts, [=, &p](int64_t part, int64_t thread) {
      const tile::Session session;
      panels_int8<Out>(p, rows, panels * part / parts, panels * (part + 1) / parts,
                       reinterpret_cast<int32_t*>(rows.threads + thread * w.thread));
    });
  }
}

}  // namespace

void quantized_tiles(const QuantizedProducts& products) {
  const QuantizedProduct& one = products.all[0];
  if (one.args->x.dtype() == DType::f32)
    run<float, float>(products.all);
  else if (one.args->y.dtype() == DType::f32)
    run<bf16, float>(products.all);
  else
    run<bf16, bf16>(products.all);
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
