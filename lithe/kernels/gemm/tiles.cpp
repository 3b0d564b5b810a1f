// Matrix products in bf16 on tiles (cpu/tile.h). Both operands are packed into panels whose order the tiles read; a
// packed b is read where it lies. A thread keeps a panel of a, 32 rows by some k, in its first cache, and passes those
// of b by it.
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/tile_block.h"
#include "lithe/kernels/gemm/cpu_vectors.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

using tile::kBlock, tile::kStepBytes, tile::kBytes;
constexpr int64_t kStep = 32;              // k of a step
constexpr int64_t kBlockSteps = 8;         // of a panel of a in the first cache: 16 KiB, and as much of b
constexpr int64_t kNear = 2, kFar = 8;     // steps that b is asked for ahead: from the caches, from memory
constexpr int64_t kSum = kBlock * kBlock;  // floats of a block of sums
static_assert(kTileBlockCols % kBlock == 0);

int64_t blocks_of(int64_t n) { return (n + kBlock - 1) / kBlock; }
int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

typedef uint32_t TileRow __attribute__((vector_size(64)));
typedef uint16_t HalfRow __attribute__((vector_size(32)));

// ---- from matrices to tiles

// A matrix of one operand seen as [lines, k], a line being a row of op(a) or a column of op(b): as it lies, or,
// `across`, transposed.
struct Source {
  const bf16* data;
  int64_t lines, k, stride;
  bool across;
};
Source source_a(const Product& p) {
  return {static_cast<const bf16*>(p.a), p.M, p.K, p.transpose_a ? p.M : p.K, p.transpose_a};
}
Source source_b(const Product& p) {
  return {static_cast<const bf16*>(p.b), p.N, p.K, p.transpose_b ? p.K : p.N, !p.transpose_b};
}

// 32 k from k on of 16 lines from `line` on, 0 beyond the matrix. Across: r[i] is pair i of k, of all lines; else line
// i.
[[gnu::always_inline]] inline void read_tile(const Source& s, int64_t line, int64_t k, TileRow (&r)[16]) {
  const int64_t lines = s.lines - line, left = s.k - k;
  if (!s.across) {
    const bf16* from = s.data + line * s.stride + k;
    for (int i = 0; i < 16; ++i)
      r[i] = i >= lines      ? TileRow{}
             : left >= kStep ? load_bits<TileRow>(from + i * s.stride)
                             : load_bits<TileRow>(from + i * s.stride, left * 2);
    return;
  }
  const bf16* from = s.data + k * s.stride + line;
  const auto row = [&](int64_t i) __attribute__((always_inline)) {
    const HalfRow h = i >= left     ? HalfRow{}
                      : lines >= 16 ? load_bits<HalfRow>(from + i * s.stride)
                                    : load_bits<HalfRow>(from + i * s.stride, lines * 2);
    return __builtin_convertvector(h, TileRow);
  };
  for (int i = 0; i < 16; ++i) r[i] = row(2 * i) | row(2 * i + 1) << 16;
}

// One step of a panel: lines from `line` on, of which `tiles` times 16 are wanted.
[[gnu::noinline]] void pack_a(const Source& s, int64_t line, int64_t k, int64_t tiles, uint8_t* to) {
  for (int64_t t = 0; t < tiles; ++t) {
    TileRow r[16];
    if (line + t * 16 >= s.lines) {
      std::memset(to + t * kBytes, 0, size_t(kBytes));
      continue;
    }
    read_tile(s, line + t * 16, k, r);
    if (s.across) transpose_16(r);
    for (int i = 0; i < 16; ++i) std::memcpy(to + t * kBytes + i * 64, &r[i], 64);
  }
}
[[gnu::noinline]] void pack_b(const Source& s, int64_t line, int64_t k, uint8_t* to) {
  for (int64_t t = 0; t < 2; ++t) {
    TileRow r[16]{};
    if (line + t * 16 < s.lines) {
      read_tile(s, line + t * 16, k, r);
      if (!s.across) transpose_16(r);
    }
    for (int i = 0; i < 16; ++i) std::memcpy(to + i * 128 + t * 64, &r[i], 64);
  }
}

// Runs f(panel, step) on a share of the panels, in the order in which the matrix lies in memory.
template <class F>
[[gnu::always_inline]] inline void each_step(int64_t panels, int64_t steps, bool across, F&& f) {
  parallel(panels, 64 / steps + 1, [=](int64_t begin, int64_t end, int64_t) {
    if (across)
      for (int64_t s = 0; s < steps; ++s)
        for (int64_t i = begin; i < end; ++i) f(i, s);
    else
      for (int64_t i = begin; i < end; ++i)
        for (int64_t s = 0; s < steps; ++s) f(i, s);
  });
}

// ---- blocks of sums

template <class Out>
struct Sums {
  const Product& p;
  int64_t m, n;  // of the first element of the block

  static constexpr bool kWide = sizeof(Out) == sizeof(float);
  int64_t rows() const { return least(p.M - m, kBlock); }
  int row_tiles() const { return rows() <= 16 ? 1 : 2; }
  Out* c() const { return static_cast<Out*>(p.c) + m * p.N + n; }
  // Tiles can be loaded from c and stored to it.
  bool direct() const { return kWide && rows() % 16 == 0 && n + kBlock <= p.N; }

  // What the sums start with: zero, c, or what is put into `own`.
  tile::Words<const float> start(float* own) const {
    if (!p.bias && !p.accumulate) return {nullptr, 0};
    if constexpr (kWide)
      if (!p.bias && direct()) return {c(), p.N};
    for (int64_t r = 0; r < rows(); ++r)
      for (int64_t i = 0; i < kBlock; i += kLanes)
        store(own + r * kBlock + i, n + i < p.N ? first_sum<Out>(p, m + r, n + i) : Vec{});
    return {own, kBlock};
  }
  // Where they end: c, or `own`, for finish().
  tile::Words<float> end(float* own) const {
    if constexpr (kWide)
      if (direct()) return {c(), p.N};
    return {own, kBlock};
  }
  void finish(const float* own) const {
    if (direct()) return;
    for (int64_t r = 0; r < rows(); ++r)
      for (int64_t i = 0; i < kBlock && n + i < p.N; i += kLanes)
        store_some(c() + r * p.N + i, load(own + r * kBlock + i), p.N - n - i);
  }
};

void multiply(int row_tiles, const tile::BlockProduct<float>& p) {
  if (row_tiles == 1)
    tile::multiply<tile::Bf16, 1>(p);
  else
    tile::multiply<tile::Bf16, 2>(p);
}

tile::PackedPanels packed_panels(const Product& p) {
  return {static_cast<const uint8_t*>(p.b), packed_words<Bf16>(p.K)};
}
static_assert(kPanelWords == kBlock);

// ---- few rows and a packed b, which is read once and in order

template <class Out>
void run_stream(const Product& p) {
  auto* a = static_cast<uint8_t*>(p.workspace);
  const int64_t steps = blocks_of(p.K), tiles = p.M <= 16 ? 1 : 2;
  const Source from = source_a(p);
  each_step(1, steps, false, [=](int64_t, int64_t s) { pack_a(from, 0, s * kStep, tiles, a + s * tiles * kBytes); });
  const tile::PackedPanels b = packed_panels(p);
  constexpr int64_t kWorth = 1 << 18;  // multiply-adds below which a second thread costs more than it saves
  parallel_pieces(blocks_of(p.N), kWorth / (kBlock * kBlock * p.K + 1) + 1, [=, &p](int64_t begin, int64_t end) {
    const tile::Session session;
    alignas(64) float own[kSum];
    alignas(64) uint8_t copy[kStepBytes];
    for (int64_t panel = begin; panel < end; ++panel) {
      const Sums<Out> sums{p, 0, panel * kBlock};
      multiply(int(tiles), {a, b.at(panel, 0), b.whole_steps(), b.rest(panel, copy), b.at(panel + 1, 0), kFar,
                            sums.start(own), sums.end(own)});
      sums.finish(own);
    }
  });
}

// ---- many rows: chunks of both operands are packed by all threads, then blocks of sums shared among them

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// A part of the product that fits the workspace: rows, columns and k of both operands packed, and, when k does not fit,
// the sums between chunks of k.
template <class Out>
struct Chunk {
  const Product& p;
  Range m, n, k;  // all but the last end at multiples of kBlock
  uint8_t *a, *b;
  float* between;  // block by block
  float* scratch;  // of a thread

  bool first() const { return k.begin == 0; }
  bool last() const { return k.end == p.K; }
  int64_t steps() const { return (k.size() + kStep - 1) / kStep; }
  int64_t panels_a() const { return blocks_of(m.size()); }
  int64_t panels_b() const { return blocks_of(n.size()); }

  // The last panel of a may have one tile of rows only; all before it have two.
  int64_t tiles_of(int64_t panel) const { return m.begin + panel * kBlock + 16 < m.end ? 2 : 1; }

  void pack_rows() const {
    const Source from = source_a(p);
    each_step(panels_a(), steps(), from.across, [=, *this](int64_t panel, int64_t s) {
      const int64_t tiles = tiles_of(panel);
      pack_a(from, m.begin + panel * kBlock, k.begin + s * kStep, tiles,
             a + panel * steps() * kStepBytes + s * tiles * kBytes);
    });
  }
  void pack_columns() const {
    const Source from = source_b(p);
    each_step(panels_b(), steps(), from.across, [=, *this](int64_t panel, int64_t s) {
      pack_b(from, n.begin + panel * kBlock, k.begin + s * kStep, b + (panel * steps() + s) * kStepBytes);
    });
  }

  // Panels [rows) of a by panels [cols) of b. Within a group of columns, whose sums stay in cache, a few steps at a
  // time.
  void multiply_part(Range rows, Range cols, float* sums) const {
    constexpr int64_t kGroup = kTileBlockCols / kBlock;
    const int64_t groups = (cols.size() + kGroup - 1) / kGroup;
    for (int64_t g = 0; g < groups; ++g) {
      const Range group{cols.begin + cols.size() * g / groups, cols.begin + cols.size() * (g + 1) / groups};
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        const int64_t pieces = (steps() + kBlockSteps - 1) / kBlockSteps;
        for (int64_t i = 0; i < pieces; ++i) {
          const Range piece{steps() * i / pieces, steps() * (i + 1) / pieces};
          for (int64_t col = group.begin; col < group.end; ++col)
            multiply_block(row, col, piece, sums + (col - group.begin) * kSum,
                           col + 1 < group.end ? col + 1 : group.begin);
        }
      }
    }
  }

  void multiply_block(int64_t row, int64_t col, Range piece, float* own, int64_t next) const {
    const int64_t tiles = tiles_of(row);
    const Sums<Out> sums{p, m.begin + row * kBlock, n.begin + col * kBlock};
    float* kept = between + (row * panels_b() + col) * kSum;
    const bool begins = piece.begin == 0, ends = piece.end == steps();
    tile::Words<const float> from{begins ? kept : own, kBlock};
    tile::Words<float> to{ends ? kept : own, kBlock};
    if (begins && first()) from = sums.start(own);
    if (ends && last()) to = sums.end(own);
    tile::BlockProduct<float> block{a + row * steps() * kStepBytes + piece.begin * tiles * kBytes,
                                    nullptr,
                                    piece.size(),
                                    nullptr,
                                    nullptr,
                                    kNear,
                                    from,
                                    to};
    alignas(64) uint8_t copy[kStepBytes];
    if (p.packed) {
      const tile::PackedPanels panels = packed_panels(p);
      const int64_t at = k.begin / kStep + piece.begin, panel = n.begin / kBlock;
      block.b = panels.at(panel + col, at), block.after = panels.at(panel + next, at);
      if (at + piece.size() > panels.whole_steps()) --block.steps, block.last = panels.rest(panel + col, copy);
    } else {
      block.b = b + (col * steps() + piece.begin) * kStepBytes,
      block.after = b + (next * steps() + piece.begin) * kStepBytes;
    }
    multiply(int(tiles), block);
    if (ends && last()) sums.finish(own);
  }

  // Threads form a grid over the blocks, chosen for the least work of the busiest.
  void run() const {
    Range best{1, 1};
    int64_t work = INT64_MAX;
    for (int64_t cols = 1; cols <= p.threads && cols <= panels_b(); ++cols) {
      const int64_t rows = least(p.threads / cols, panels_a());
      const int64_t mine = ((panels_b() + cols - 1) / cols) * ((panels_a() + rows - 1) / rows);
      if (mine < work) best = {rows, cols}, work = mine;
    }
    const int64_t grid_rows = best.begin, grid_cols = best.end;
    parallel(grid_rows * grid_cols, 1, [=, *this](int64_t begin, int64_t end, int64_t thread) {
      const tile::Session session;
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / grid_cols, col = i % grid_cols;
        multiply_part({panels_a() * row / grid_rows, panels_a() * (row + 1) / grid_rows},
                      {panels_b() * col / grid_cols, panels_b() * (col + 1) / grid_cols},
                      scratch + thread * kTileBlockCols * kBlock);
      }
    });
  }
};

template <class Out>
void run_chunks(const Product& p) {
  const TileWorkspace w(p.M, p.N, p.K, p.packed, p.threads);
  auto* base = static_cast<uint8_t*>(p.workspace);
  const auto upto = [](int64_t begin, int64_t size, int64_t end) { return Range{begin, least(begin + size, end)}; };
  for (int64_t n = 0; n < p.N; n += kTileChunkCols)
    for (int64_t m = 0; m < p.M; m += kTileChunkRows)
      for (int64_t k = 0; k < p.K; k += kTileChunkK) {
        const Chunk<Out> chunk{p,
                               upto(m, kTileChunkRows, p.M),
                               upto(n, kTileChunkCols, p.N),
                               upto(k, kTileChunkK, p.K),
                               base,
                               base + w.a,
                               reinterpret_cast<float*>(base + w.a + w.b),
                               reinterpret_cast<float*>(base + w.a + w.b + w.between)};
        if (!p.packed && (m == 0 || p.K > kTileChunkK)) chunk.pack_columns();
        chunk.pack_rows();
        chunk.run();
      }
}

template <class Out>
void run(const Product& p) {
  if (p.packed && p.M <= kBlock)
    run_stream<Out>(p);
  else
    run_chunks<Out>(p);
}

}  // namespace

void tiles(const Product& p) {
  if (p.bf16_out)
    run<bf16>(p);
  else
    run<float>(p);
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
