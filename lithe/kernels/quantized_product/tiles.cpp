// Products with integer weights on tiles (cpu/tile.h). Rows rounded to 8 bits lie in panels for tiles; weights of 8
// bits are read where they lie, as unsigned bytes; those of 4 bits are unpacked, a panel of 32 outputs at a time, and
// each group of inputs is a step whose sums are scaled before they are added up.
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/tile_block.h"
#include "lithe/kernels/quantized_product/cpu_rows.h"

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
  int32_t* sums;  // [M, groups] of the integers
  float* steps;   // [M]
  uint8_t* threads;
  int64_t M, count, panel_bytes;  // count: steps of a panel

  RowPanels(const QuantizedProduct& p, const QuantizedTiles& w)
      : data(static_cast<uint8_t*>(p.workspace)),
        sums(reinterpret_cast<int32_t*>(data + w.rows)),
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
};

// A group of 4-bit weights begins a step; where it has 32 inputs, every other begins in the middle of one of weights.
template <class T>
void quantize_row(const QuantizedProduct& p, const RowPanels& to, int64_t m) {
  const T* x = pointer<T>(p.args->x) + m * p.K;
  const RowStep step = step_of(x, p.K);
  to.steps[m] = step.size;
  IntVec sum{};
  for (int64_t s = 0; s < to.count; ++s) {
    const int64_t in_row = p.group == 32 ? 32 : kRowBytes, first = p.group == 32 ? s % 2 * 32 : 0;
    uint8_t* row = to.at(m, s);
    if (in_row < kRowBytes) std::memset(row, 0, size_t(kRowBytes));
    for (int64_t i = 0; i < in_row; i += kLanes) {
      const IntVec q = rounded(x, p.K, s * in_row + i, step);
      sum += q;
      const ByteVec bytes = __builtin_convertvector(q, ByteVec);
      std::memcpy(row + first + i, &bytes, sizeof bytes);
    }
    if (p.group) to.sums[m * p.groups + s] = step.zero ? 0 : total_of(sum), sum = IntVec{};
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

// ---- 4 bits

// The integers of a panel as bytes, in rows of units.
void unpack_int4(const QuantizedProduct& p, int64_t panel, uint8_t* to) {
  constexpr int64_t kUnitBytes = kBlock * 4;
  for (int64_t g = 0; g < p.groups; ++g) {
    const uint8_t* from = p.w + panel * p.panel_bytes + g * p.group_bytes;
    for (int64_t pair = 0; pair < p.group / 8; ++pair, from += kUnitBytes, to += 2 * kUnitBytes)
      for (int64_t i = 0; i < kUnitBytes; ++i) to[i] = from[i] & 15, to[kUnitBytes + i] = from[i] >> 4;
  }
  // A last group of 32 may begin a step that has no second.
  std::memset(to, 0, size_t(p.group == 32 ? kStepBytes / 2 : 0));
}

template <class Out>
void panel_int4(const QuantizedProduct& p, const RowPanels& rows, int64_t panel, uint8_t* unpacked, int32_t* sums) {
  unpack_int4(p, panel, unpacked);
  alignas(64) float totals[kSum];
  for (int64_t block = 0; block < rows.blocks(); ++block) {
    const int tiles = rows.tiles_of(block);
    std::memset(totals, 0, sizeof totals);
    for (int64_t g = 0; g < p.groups; ++g) {
      const uint8_t* b = unpacked + (p.group == 32 ? g / 2 : g) * kStepBytes;
      tile::multiply<tile::Bytes>(tiles,
                                  {tile::packed_rows(rows.data + block * rows.panel_bytes + g * tiles * kBytes, tiles),
                                   b,
                                   1,
                                   nullptr,
                                   b + kStepBytes,
                                   0,
                                   {nullptr, 0},
                                   {sums, kBlock}});
      const auto* scales =
          reinterpret_cast<const bf16*>(p.w + panel * p.panel_bytes + g * p.group_bytes + p.group / 2 * kBlock);
      for (int64_t i = 0; i < kBlock; i += kLanes) {
        const Vec scale = load(scales + i);
        for (int64_t r = 0; r < rows.rows_of(block); ++r) {
          const int32_t excess = 8 * rows.sums[(block * kBlock + r) * p.groups + g];
          float* at = totals + r * kBlock + i;
          const IntVec sum = load_bits<IntVec>(sums + r * kBlock + i) - excess;
          store(at, load(at) + __builtin_convertvector(sum, Vec) * scale);
        }
      }
    }
    for (int64_t r = 0; r < rows.rows_of(block); ++r)
      for (int64_t i = 0, m = block * kBlock + r; i < kBlock && panel * kBlock + i < p.N; i += kLanes)
        put<Out>(p, m, panel * kBlock + i, load(totals + r * kBlock + i) * rows.steps[m]);
  }
}

template <class T, class Out>
void run(std::span<const QuantizedProduct> products) {
  const QuantizedProduct& one = products[0];  // x, and so M, K and the rounded rows, are the same in all
  const QuantizedTiles w(one.M, one.K, one.group, one.groups, threads());
  const RowPanels rows(one, w);
  const int64_t grain = (1 << 16) / (one.K + 1) + 1;
  parallel(one.M, grain, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t m = begin; m < end; ++m) quantize_row<T>(one, rows, m);
  });
  for (const QuantizedProduct& p : products) {
    const int64_t panels = (p.N + kBlock - 1) / kBlock;
    const int64_t groups = (panels + kPanels - 1) / kPanels;
    // As many groups as are even for the threads; sums of integers do not depend on them.
    const int64_t parts = groups > threads() ? groups : least(panels, threads());
    parallel(parts, 1, [&](int64_t first, int64_t last, int64_t thread) {
      const tile::Session session;
      uint8_t* own = rows.threads + thread * w.thread;
      auto* sums = reinterpret_cast<int32_t*>(own);
      for (int64_t part = first; part < last; ++part) {
        const int64_t begin = panels * part / parts, end = panels * (part + 1) / parts;
        if (!p.group) panels_int8<Out>(p, rows, begin, end, sums);
        for (int64_t panel = begin; p.group && panel < end; ++panel)
          panel_int4<Out>(p, rows, panel, own + kSum * 4, sums);
      }
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
