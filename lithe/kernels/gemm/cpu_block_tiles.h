// What cpu_blocked.cpp multiplies with: tiles of c whose sums stay in registers. With 32 registers a few rows of a stay
// in the first cache and panels of b pass. With 16, where sums are few, a panel stays there and rows of a pass.
#pragma once

#include "lithe/kernels/gemm/cpu.h"
#include "lithe/kernels/gemm/cpu_vectors.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

// A tile of c is kRows x kPanel; its sums fill the registers, of which one or a few are left for operands.
#if defined(__AVX512F__) || defined(__aarch64__)  // 32 registers
constexpr bool kPanelsStay = false;
constexpr int kRows = 14, kVectors = 2;
#else
constexpr bool kPanelsStay = true;
constexpr int kRows = 3, kVectors = 4;
#endif
constexpr int kPanel = kVectors * kLanes, kRowsStored = (kRows + kLanes - 1) / kLanes * kLanes;
constexpr int64_t kMostUnits = kPanelsStay ? kStayUnits : kBlockUnits;
// Units of a panel and of a tile of a are asked for kSoon ahead where they do not stay in the first cache. What comes
// next gets a look every kLook units.
constexpr int kSoon = 16, kUnrolled = 4, kLook = 8;
static_assert(kRowsStored <= kTileRows && kBlockCols % kPanel == 0 && kPanelWords % kPanel == 0);

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};
// Part i of `count` nearly equal ones.
Range part_of(Range all, int64_t i, int64_t count) {
  return {all.begin + all.size() * i / count, all.begin + all.size() * (i + 1) / count};
}

// Where the sums of a tile come from or go to: element [r, n] at p[r * stride + n].
template <class P>
struct Sums {
  P p;
  int64_t stride;
};

template <int R, int V>
[[gnu::always_inline]] inline void read_sums(Sums<const float*> from, Vec (&sum)[R][V]) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[r][v] = Vec{} + load(from.p + r * from.stride + v * kLanes);  // not -0: first_sum
}
template <int R, int V>
[[gnu::always_inline]] inline void write_sums(const Vec (&sum)[R][V], Sums<float*> to) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store(to.p + r * to.stride + v * kLanes, sum[r][v]);
}

// Cache lines that will be needed, fetched one by one between products: row after row, then the next
// line of each row. All at once they would stall the loads of the products.
struct Ahead {
  const char* p = nullptr;
  int64_t stride = 0, rows = 0, lines = 0;
  int64_t row = 0;
  template <int write, int level>
  [[gnu::always_inline]] void fetch() {
    if (lines <= 0) return;
    __builtin_prefetch(p, write, level);
    p += stride;
    if (++row == rows) row = 0, p += 64 - rows * stride, --lines;
  }
};

constexpr int64_t lines_of(int64_t bytes) { return (bytes + 63) / 64; }

// A tile of a on its way to [R, kTileStride] or, by_unit, of a transposed a to [units, kRowsStored]. A step, between
// products, moves kLanes words of a row or a unit of all rows; what whole vectors do not reach is left to finish().
template <class Source, bool by_unit>
struct Mover {
  using T = typename Source::T;
  static constexpr int64_t step_size = Source::kStep;
  const T* from = nullptr;
  uint32_t* to = nullptr;
  int64_t left = 0;                         // steps
  int64_t stride = 0, per_row = 0, at = 0;  // elements from row to row; steps of a row of a, and those that are done

  Mover() = default;
  Mover(const Product& p, Range units, Range tile, uint32_t* to) : to(to), stride(by_unit ? p.M : p.K) {
    const int64_t whole = p.K / step_size < units.end ? p.K / step_size - units.begin : units.size();
    from = static_cast<const T*>(p.a) +
           (by_unit ? units.begin * step_size * p.M + tile.begin : tile.begin * p.K + units.begin * step_size);
    per_row = by_unit ? 1 : whole / kLanes;
    left = !by_unit ? tile.size() * per_row : tile.begin + kRowsStored <= p.M ? whole : 0;
  }

  [[gnu::always_inline]] void step() {
    if (left <= 0) return;
    --left;
    if constexpr (by_unit) {
#pragma GCC unroll 4
      for (int i = 0; i < kRowsStored; i += kLanes)
        store_bits(to + i, Source::across(from + i, stride, step_size, kLanes));
#pragma GCC unroll 2
      for (int k = 0; k < step_size; ++k) __builtin_prefetch(from + k * stride + 2 * kRows, 0, 2);
      from += step_size * stride, to += kRowsStored;
    } else {
      store_bits(to, Source::along(from, kLanes * step_size));
      __builtin_prefetch(from + kRows * stride, 0, 2);
      from += kLanes * step_size, to += kLanes;
      if (++at == per_row) at = 0, from += stride - per_row * kLanes * step_size, to += kTileStride - per_row * kLanes;
    }
  }

  void finish(const Product& p, Range units, Range tile, uint32_t* begin) {
    while (left > 0) step();
    if constexpr (by_unit) {
      for (int64_t u = units.begin + (to - begin) / kRowsStored; u < units.end; ++u) {
        const auto* row = static_cast<const T*>(p.a) + u * step_size * p.M;
        for (int64_t m = tile.begin; m < tile.end; m += kLanes)
          store_bits(begin + (u - units.begin) * kRowsStored + m - tile.begin,
                     Source::across(row + m, p.M, p.K - u * step_size, p.M - m));
      }
    } else if (const int64_t u = units.begin + per_row * kLanes; u < units.end) {
      for (int64_t m = tile.begin; m < tile.end; ++m)
        row_units<Source>(p, m, u, units.end, begin + (m - tile.begin) * kTileStride + u - units.begin);
    }
  }
};

// What tiles do between products for those that come.
template <class Source, bool by_unit>
struct Next {
  Mover<Source, by_unit> a;
  Ahead b;
  int64_t steps = 0, lines = 0;  // of a at a look, of b with a tile
};

// A panel of b: kPanel words of each unit, the units `stride` words apart.
struct Panel {
  const uint32_t* words;
  int64_t stride;
};

// Unit u of a tile of a by a unit of b.
template <class Source, bool by_unit, int R>
[[gnu::always_inline]] inline void unit(Vec (&sum)[R][kVectors], const uint32_t* a, int64_t u, const uint32_t* b,
                                        int64_t stride) {
#pragma GCC unroll 2
  for (int v = 0; v < kPanel; v += 16) __builtin_prefetch(b + kSoon * stride + v, 0, 3);
  if (by_unit) __builtin_prefetch(a + (u + kSoon) * kRowsStored, 0, 3);
  WordVec w[kVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; ++v) w[v] = load_bits<WordVec>(b + v * kLanes);
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    const WordVec x = repeat(by_unit ? a[u * kRowsStored + r] : a[r * kTileStride + u]);
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[r][v] = Source::multiply_add(sum[r][v], x, w[v]);
  }
}

// A tile of R rows: to = from + a b, over `units` units; a [R, kTileStride] or, by_unit, [units, kRowsStored].
template <class Source, bool by_unit, int R>
[[gnu::noinline]] void tile(const uint32_t* a, Panel panel, int64_t units, Sums<const float*> from, Sums<float*> to,
                            Ahead next_c, Next<Source, by_unit>& next) {
  Vec sum[R][kVectors];
  read_sums(from, sum);
  const uint32_t* b = panel.words;
  const int64_t stride = kPanel == kPanelWords ? kPanelWords : panel.stride;
  int64_t lines = next.lines;
  int64_t u = 0;
  for (; u + kLook <= units;) {
    next_c.fetch<1, 3>();
    for (int64_t i = 0; i < next.steps; ++i) next.a.step();
    for (int i = 0; i < 2 && lines > 0; ++i, --lines) next.b.template fetch<0, 2>();
    for (const int64_t stop = u + kLook; u < stop; u += kUnrolled, b += kUnrolled * stride)
#pragma GCC unroll 4
      for (int i = 0; i < kUnrolled; ++i) unit<Source, by_unit>(sum, a, u + i, b + i * stride, stride);
  }
  for (; u < units; ++u, b += stride) unit<Source, by_unit>(sum, a, u, b, stride);
  write_sums(sum, to);
}

template <class Source, bool by_unit, int R = kRows>
void tile_of(int64_t rows, const uint32_t* a, Panel b, int64_t units, Sums<const float*> from, Sums<float*> to,
             const Ahead& next_c, Next<Source, by_unit>& next) {
  if (rows == R) return tile<Source, by_unit, R>(a, b, units, from, to, next_c, next);
  if constexpr (R > 1) tile_of<Source, by_unit, R - 1>(rows, a, b, units, from, to, next_c, next);
}

// Rows of a in units, `stride` words apart.
struct Rows {
  const uint32_t* words;
  int64_t stride;
};

// Unit u of a tile of a by that of a panel that stays.
template <class Source, bool kFirst, int R, int V>
[[gnu::always_inline]] inline void unit_by_panel(Vec (&sum)[R][V], Rows a, int64_t u, const uint32_t* b,
                                                 int64_t stride) {
  if constexpr (kFirst)
    for (int v = 0; v < V * kLanes; v += 16) __builtin_prefetch(b + kSoon * stride + v, 0, 3);
  WordVec x[R];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) x[r] = repeat(load_bits<uint32_t>(a.words + r * a.stride + u));
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const WordVec w = load_bits<WordVec>(b + v * kLanes);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sum[r][v] = Source::multiply_add(sum[r][v], x[r], w);
  }
}

// A tile by a panel that stays, to = from + a b, and what it asks for between products: its neighbour in c, what comes
// after a and b.
struct PanelTile {
  Rows a;
  Panel b;
  int64_t units;
  Ahead next_a, next_b;
  Ahead next_c = {};
  Sums<const float*> from = {};
  Sums<float*> to = {};
};

// R rows and V vectors of columns. kFirst: it is the first that reads the panel.
template <class Source, int R, int V, bool kFirst>
[[gnu::noinline]] void tile_by_panel(PanelTile& t) {
  Vec sum[R][V];
  read_sums(t.from, sum);
  const Rows a = t.a;
  const uint32_t* b = t.b.words;
  const int64_t stride = kPanel == kPanelWords ? kPanelWords : t.b.stride, units = t.units;
  int64_t u = 0;
  for (; u + kLook <= units;) {
    t.next_c.fetch<1, 3>();
    t.next_b.fetch<0, 2>();
    t.next_a.fetch<0, 2>();
    for (const int64_t stop = u + kLook; u < stop; u += 2, b += 2 * stride)
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) unit_by_panel<Source, kFirst>(sum, a, u + i, b + i * stride, stride);
  }
  for (; u < units; ++u, b += stride) unit_by_panel<Source, kFirst>(sum, a, u, b, stride);
  write_sums(sum, t.to);
}

template <class Source, int V, bool kFirst, int R = kRows>
[[gnu::always_inline]] inline void tile_by_panel_of(int64_t rows, PanelTile& t) {
  if (rows == R) return tile_by_panel<Source, R, V, kFirst>(t);
  if constexpr (R > 1) tile_by_panel_of<Source, V, kFirst, R - 1>(rows, t);
}

}  // namespace
}  // namespace lithe::kernels::cpu::LITHE_ISA
