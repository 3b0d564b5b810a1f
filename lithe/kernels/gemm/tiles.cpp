// Matrix products in bf16 on tiles (cpu/tile.h). Both operands are packed into panels whose order the tiles read; a
// packed b is read where it lies. A thread keeps a panel of a, 32 rows by some k, in its first cache, and passes those
// of a group of columns of b by it, from the second.
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/cpu/tile_block.h"
#include "lithe/kernels/gemm/cpu_vectors.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

using tile::kBlock, tile::least, tile::kStepBytes, tile::kBytes;
constexpr int64_t kStep = 32;              // k of a step
constexpr int64_t kBlockSteps = 8;         // of a panel of a in the first cache: 16 KiB, and as much of b
constexpr int64_t kNear = 2, kFar = 8;     // steps that b is asked for ahead: from the caches, from memory
constexpr int64_t kSum = kBlock * kBlock;  // floats of a block of sums
static_assert(kTilePieceBytes == kBlockSteps * kStepBytes);

int64_t blocks_of(int64_t n) { return (n + kBlock - 1) / kBlock; }

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
    if (left > kBlockSteps * kStep)  // what comes after the piece
      for (int64_t i = 0; i < 16 && i < lines; ++i) __builtin_prefetch(from + i * s.stride + kBlockSteps * kStep);
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

// f(panel, step) for all, in the order in which the matrix lies in memory.
template <class F>
[[gnu::always_inline]] inline void in_order(int64_t panels, int64_t steps, bool across, F&& f) {
  if (across)
    for (int64_t s = 0; s < steps; ++s)
      for (int64_t i = 0; i < panels; ++i) f(i, s);
  else
    for (int64_t i = 0; i < panels; ++i)
      for (int64_t s = 0; s < steps; ++s) f(i, s);
}

// The same by all threads, each with a share of the panels.
template <class F>
[[gnu::always_inline]] inline void each_step(int64_t panels, int64_t steps, bool across, F&& f) {
  parallel(panels, 64 / steps + 1, [=](int64_t begin, int64_t end, int64_t) {
    in_order(end - begin, steps, across, [&](int64_t i, int64_t s) { f(begin + i, s); });
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
      tile::multiply<tile::Bf16>(int(tiles),
                                 {tile::packed_rows(a, tiles), b.at(panel, 0), b.whole_steps(), b.rest(panel, copy),
                                  b.at(panel + 1, 0), kFar, sums.start(own), sums.end(own)});
      sums.finish(own);
    }
  });
}

// ---- many rows: a chunk of the product at a time, its blocks shared among the threads

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// Rows, columns and k that the workspace has room for.
template <class Out>
struct Chunk {
  const Product& p;
  const TileWorkspace& w;
  Range m, n, k;  // all but the last end at multiples of kBlock

  uint8_t* a() const { return static_cast<uint8_t*>(p.workspace); }
  uint8_t* b() const { return a() + w.a; }
  // When k does not fit: block by block.
  float* between() const { return reinterpret_cast<float*>(a() + w.a + w.b); }
  float* sums_of(int64_t thread) const {
    return reinterpret_cast<float*>(a() + w.a + w.b + w.between) + thread * w.group_cols * kBlock;
  }

  bool first() const { return k.begin == 0; }
  bool last() const { return k.end == p.K; }
  int64_t steps() const { return (k.size() + kStep - 1) / kStep; }
  int64_t panels_a() const { return blocks_of(m.size()); }
  int64_t panels_b() const { return blocks_of(n.size()); }

  // The last panel of a may have one tile of rows only; all before it have two.
  int64_t tiles_of(int64_t panel) const { return m.begin + panel * kBlock + 16 < m.end ? 2 : 1; }

  // Whole tiles of an a as it is.
  bool in_place(int64_t panel) const {
    const int64_t left = m.end - m.begin - panel * kBlock;
    return !w.packs_a && reinterpret_cast<uintptr_t>(p.a) % 64 == 0 && (left >= kBlock || left == 16);
  }

  void pack_step_a(const Source& from, int64_t panel, int64_t s, uint8_t* to) const {
    pack_a(from, m.begin + panel * kBlock, k.begin + s * kStep, tiles_of(panel), to);
  }
  void pack_step_b(const Source& from, int64_t panel, int64_t s, uint8_t* to) const {
    pack_b(from, n.begin + panel * kBlock, k.begin + s * kStep, to);
  }

  // What all threads read.
  void pack_shared() const {
    const Source rows = source_a(p), cols = source_b(p);
    if (w.packs_a)
      each_step(panels_a(), steps(), rows.across, [=, *this](int64_t panel, int64_t s) {
        pack_step_a(rows, panel, s, a() + panel * steps() * kStepBytes + s * tiles_of(panel) * kBytes);
      });
    if (!p.packed && !w.own_columns)
      each_step(panels_b(), steps(), cols.across, [=, *this](int64_t panel, int64_t s) {
        pack_step_b(cols, panel, s, b() + (panel * steps() + s) * kStepBytes);
      });
  }

  // Panels [rows) of a by panels [group) of b, whose sums stay in cache, a few steps at a time.
  void multiply_part(Range rows, Range group, int64_t thread) const {
    const Source from_a = source_a(p), from_b = source_b(p);
    uint8_t* piece_a = a() + thread * kTilePieceBytes;
    const uint8_t* panels = b() + group.begin * steps() * kStepBytes;
    if (w.own_columns && !p.packed) {
      uint8_t* own = b() + thread * w.group_b;
      in_order(
          group.size(), steps(), from_b.across, [&](int64_t i, int64_t s) __attribute__((always_inline)) {
            pack_step_b(from_b, group.begin + i, s, own + (i * steps() + s) * kStepBytes);
          });
      panels = own;
    }
    const int64_t pieces = (steps() + kBlockSteps - 1) / kBlockSteps;
    for (int64_t row = rows.begin; row < rows.end; ++row)
      for (int64_t i = 0; i < pieces; ++i) {
        const Range piece{steps() * i / pieces, steps() * (i + 1) / pieces};
        const int64_t tiles = tiles_of(row);
        tile::PanelRows panel_a =
            tile::packed_rows(a() + row * steps() * kStepBytes + piece.begin * tiles * kBytes, tiles);
        if (in_place(row)) {
          const int64_t line = p.K * 2, at = (m.begin + row * kBlock) * line + (k.begin + piece.begin * kStep) * 2;
          panel_a = {static_cast<const uint8_t*>(p.a) + at, line, 16 * line, tile::kRowBytes};
        } else if (!w.packs_a) {
          panel_a.data = piece_a;
          for (int64_t s = piece.begin; s < piece.end; ++s)
            pack_step_a(from_a, row, s, piece_a + (s - piece.begin) * tiles * kBytes);
        }
        for (int64_t col = group.begin; col < group.end; ++col) {
          const int64_t at = col - group.begin, next = col + 1 < group.end ? at + 1 : 0;
          multiply_block(row, col, piece, panel_a, panels + (at * steps() + piece.begin) * kStepBytes,
                         panels + (next * steps() + piece.begin) * kStepBytes, sums_of(thread) + at * kSum);
        }
      }
  }

  void multiply_block(int64_t row, int64_t col, Range piece, const tile::PanelRows& panel_a, const uint8_t* panel_b,
                      const uint8_t* after, float* own) const {
    const Sums<Out> sums{p, m.begin + row * kBlock, n.begin + col * kBlock};
    float* kept = between() + (row * panels_b() + col) * kSum;
    const bool begins = piece.begin == 0, ends = piece.end == steps();
    tile::BlockProduct<float> block{panel_a,
                                    panel_b,
                                    piece.size(),
                                    nullptr,
                                    after,
                                    kNear,
                                    {begins ? kept : own, kBlock},
                                    {ends ? kept : own, kBlock}};
    if (begins && first()) block.from = sums.start(own);
    if (ends && last()) block.to = sums.end(own);
    alignas(64) uint8_t copy[kStepBytes];
    if (p.packed) {
      const tile::PackedPanels panels = packed_panels(p);
      const int64_t at = k.begin / kStep + piece.begin, panel = n.begin / kBlock + col;
      block.b = panels.at(panel, at), block.after = panels.at(panel + 1, at);
      if (at + piece.size() > panels.whole_steps()) --block.steps, block.last = panels.rest(panel, copy);
    }
    tile::multiply<tile::Bf16>(int(tiles_of(row)), block);
    if (ends && last()) sums.finish(own);
  }

  // Groups of columns, and, unless a thread packs them, parts of the rows.
  void run() const {
    const int64_t most = w.group_cols / kBlock, groups = (panels_b() + most - 1) / most,
                  wanted = (kTileItems * p.threads + groups - 1) / groups,
                  parts = w.own_columns && !p.packed ? 1 : least(wanted, panels_a());
    parallel_items(groups * parts, [=, *this](int64_t item, int64_t thread) {
      const tile::Session session;
      const int64_t group = item / parts, part = item % parts;
      multiply_part({panels_a() * part / parts, panels_a() * (part + 1) / parts},
                    {panels_b() * group / groups, panels_b() * (group + 1) / groups}, thread);
    });
  }
};

template <class Out>
void run_chunks(const Product& p) {
  const TileWorkspace w(p.M, p.N, p.K, p.packed, p.transpose_a, p.threads);
  const auto upto = [](int64_t begin, int64_t size, int64_t end) {
    return Range{begin, least(size, end - begin) + begin};
  };
  for (int64_t n = 0; n < p.N; n += least(w.chunk_cols, p.N))
    for (int64_t m = 0; m < p.M; m += least(w.chunk_rows, p.M))
      for (int64_t k = 0; k < p.K; k += kTileChunkK) {
        const Chunk<Out> chunk{p, w, upto(m, w.chunk_rows, p.M), upto(n, w.chunk_cols, p.N), upto(k, kTileChunkK, p.K)};
        chunk.pack_shared();
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
