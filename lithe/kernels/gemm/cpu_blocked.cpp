// Matrix products at the speed of the arithmetic: b is packed block by block into panels that stay in
// the second-level cache, a few rows of a at a time in the first, sums in registers.
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/gemm/cpu.h"
#include "lithe/kernels/gemm/cpu_vectors.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

// A tile of c is kRows x kPanel; its sums fill the registers.
#if defined(__AVX512F__) || defined(__aarch64__)  // 32 registers
constexpr int kRows = 14;
#else
constexpr int kRows = 6;
#endif
constexpr int kVectors = 2, kPanel = kVectors * kLanes;
constexpr int kRowsStored = (kRows + kLanes - 1) / kLanes * kLanes;
// Units of a panel and of a tile of a are asked for kSoon ahead: both together do not stay in the first cache. What
// comes next gets a look every kLook units. With 16 registers four units a turn are two too many: a sum goes to memory.
constexpr int kSoon = 16, kUnrolled = kRows > 6 ? 4 : 2, kLook = 8;
static_assert(kRowsStored <= kTileRows && kBlockCols % kPanel == 0);

struct Range {
  int64_t begin, end;
  int64_t size() const { return end - begin; }
};

// Where the sums of a tile come from or go to: element [r, n] at p[r * stride + n].
template <class P>
struct Sums {
  P p;
  int64_t stride;
};

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
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = Vec{} + load(from.p + r * from.stride + v * kLanes);  // not -0, as in first_sum
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
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) store(to.p + r * to.stride + v * kLanes, sum[r][v]);
}

template <class Source, bool by_unit, int R = kRows>
void tile_of(int64_t rows, const uint32_t* a, Panel b, int64_t units, Sums<const float*> from, Sums<float*> to,
             const Ahead& next_c, Next<Source, by_unit>& next) {
  if (rows == R) return tile<Source, by_unit, R>(a, b, units, from, to, next_c, next);
  if constexpr (R > 1) tile_of<Source, by_unit, R - 1>(rows, a, b, units, from, to, next_c, next);
}

// A panel's columns from n on of `count` units from u on, b transposed.
template <class Source>
void pack_turned(const Product& p, int64_t n, int64_t u, int64_t count, uint32_t* to) {
  constexpr int step = Source::kStep;
  const auto* b = static_cast<const typename Source::T*>(p.b);
  for (int64_t i = 0; i < kPanel && n + i < p.N; i += kLanes) {
    WordVec r[kLanes];
    turned<Source>(b + (n + i) * p.K + u * step, p.K, p.N - n - i, p.K - u * step, r);
    for (int64_t j = 0; j < count; ++j) store_bits(to + j * kPanel + i, r[j]);
  }
}

// The same, b as it is: `count` units from p, of which `left` k and `cols` columns exist. The rows after them come
// next: too many streams for the machine to foresee.
template <class Source>
void pack_rows(const Product& p, const typename Source::T* b, int64_t cols, int64_t left, int64_t count, uint32_t* to) {
  constexpr int step = Source::kStep;
  constexpr int64_t line = 64 / sizeof(*b);
  for (int64_t i = 0; i < count; ++i) {
    const auto* row = b + i * step * p.N;
    for (int64_t k = 0; k < step && count + i < (left - k + step - 1) / step; ++k)
      for (int64_t c = 0; c < kPanel; c += line) __builtin_prefetch(row + (count * step + k) * p.N + c, 0, 2);
    WordVec w[kVectors];
    across_panel<Source>(row, p.N, left - i * step, cols, w);
    store_bits(to + i * kPanel, w[0]);
    store_bits(to + i * kPanel + kLanes, w[1]);
  }
}

// Where column n of unit u of a packed b lies.
template <class Source>
const uint32_t* packed_at(const Product& p, int64_t n, int64_t u) {
  const int64_t word = n / kPanelWords * packed_words<Source>(p.K) + u / kWordUnits<Source>;
  return static_cast<const uint32_t*>(p.b) + word * kPanelWords + n % kPanelWords;
}

// Columns [cols) of units [units) of op(b), in panels [units, kPanel]; columns beyond N are 0, a copy or not written.
template <class Source>
void pack(const Product& p, Range units, Range cols, uint32_t* to) {
  constexpr int step = Source::kStep, group = kLanes;
  if (p.packed) {
    for (int64_t n = cols.begin; n < cols.end; n += kPanel)
      for (int64_t u = units.begin; u < units.end; ++u, to += kPanel)
        for (int64_t i = 0; i < kPanel; i += kLanes)
          store_bits(to + i, unit_of<Source>(load_bits<WordVec>(packed_at<Source>(p, n + i, u)), u % 2));
    return;
  }
  const auto* b = static_cast<const typename Source::T*>(p.b);
  for (int64_t u = units.begin; u < units.end; u += group) {
    const int64_t count = u + group < units.end ? group : units.end - u;
    for (int64_t n = cols.begin; n < cols.end; n += kPanel) {
      uint32_t* at = to + (n - cols.begin) * units.size() + (u - units.begin) * kPanel;
      if (p.transpose_b)
        pack_turned<Source>(p, n, u, count, at);
      else
        pack_rows<Source>(p, b + u * step * p.N + n, p.N - n, p.K - u * step, count, at);
    }
  }
}

// One block of units of b packed, against rows [rows) of a and columns [cols) of c.
template <class Source, class Out>
struct Block {
  const Product& p;
  Range units, rows, cols, next_units, next_cols;  // next: what is packed after this
  bool first, last;
  uint32_t *a, *b;
  float* partial;  // [kBlockRows, kBlockCols], the sums between blocks when c is bf16

  static constexpr bool kWide = sizeof(Out) == sizeof(float);

  // A packed b whose words are units is read where it lies.
  bool in_place() const { return p.packed && kWordUnits<Source> == 1; }
  Panel panel_at(int64_t n) const {
    if (in_place()) return {packed_at<Source>(p, n, units.begin), kPanelWords};
    return {b + (n - cols.begin) * units.size(), kPanel};
  }

  void run() const {
    if (!in_place()) pack<Source>(p, units, cols, b);
    p.transpose_a ? by_tiles<true>() : by_tiles<false>();
  }

  template <bool by_unit>
  void by_tiles() const {
    const int64_t tiles = (rows.size() + kRows - 1) / kRows, panels = (cols.size() + kPanel - 1) / kPanel;
    const int64_t looks = panels * ((units.size() + kLook - 1) / kLook);
    const auto tile = [&](int64_t t) {
      return Range{rows.begin + rows.size() * t / tiles, rows.begin + rows.size() * (t + 1) / tiles};
    };
    const auto place = [&](int64_t t) { return a + t % 2 * kTileWords; };
    Next<Source, by_unit> next;
    next.b = next_b();
    next.lines = next.b.rows * next.b.lines / (tiles * panels) + 1;
    Mover<Source, by_unit>(p, units, tile(0), place(0)).finish(p, units, tile(0), place(0));
    for (int64_t t = 0; t < tiles; ++t) {
      const bool more = t + 1 < tiles;
      if (more) next.a = {p, units, tile(t + 1), place(t + 1)};
      next.steps = looks ? (next.a.left + looks - 1) / looks : 0;
      for (int64_t n = cols.begin; n < cols.end; n += kPanel) multiply(tile(t), n, place(t), next);
      if (more) next.a.finish(p, units, tile(t + 1), place(t + 1));
    }
  }

  // The next panel of c, if there is one.
  Ahead next_c(Range tile, int64_t n) const {
    const bool more = n + kPanel < cols.end;
    return {static_cast<const char*>(p.c) + (tile.begin * p.N + n + kPanel) * int64_t(sizeof(Out)),
            p.N * int64_t(sizeof(Out)), tile.size(), more ? kPanel * int64_t(sizeof(Out)) / 64 : 0};
  }

  // The next block of b.
  Ahead next_b() const {
    constexpr int64_t size = sizeof(typename Source::T);
    const auto lines = [](int64_t bytes) { return (bytes + 63) / 64; };
    if (next_cols.size() <= 0) return {};
    if (in_place())
      return {reinterpret_cast<const char*>(packed_at<Source>(p, next_cols.begin, next_units.begin)),
              packed_words<Source>(p.K) * kPanelWords * 4, (next_cols.size() + kPanel - 1) / kPanel,
              lines(next_units.size() * kPanelWords * 4)};
    if (p.packed || p.transpose_b) return {};
    const int64_t begin = next_units.begin * Source::kStep, end = next_units.end * Source::kStep;
    return {static_cast<const char*>(p.b) + (begin * p.N + next_cols.begin) * size, p.N * size,
            (end < p.K ? end : p.K) - begin, lines(next_cols.size() * size)};
  }

  template <bool by_unit>
  void multiply(Range tile, int64_t n, const uint32_t* a, Next<Source, by_unit>& next) const {
    alignas(64) static constexpr float zeros[kPanel] = {};
    alignas(64) float local[kRows * kPanel];
    const int64_t at = tile.begin * p.N + n, left = cols.end - n;
    auto* c = static_cast<Out*>(p.c) + at;
    const bool whole = left >= kPanel;
    Sums<const float*> from{local, kPanel};
    Sums<float*> to{local, kPanel};
    if (!kWide && !(first && last))
      from = {partial + (tile.begin - rows.begin) * kBlockCols + n - cols.begin, kBlockCols};
    if (!kWide && !last) to = {const_cast<float*>(from.p), from.stride};
    if constexpr (kWide)
      if (whole) from = {c, p.N}, to = {c, p.N};
    if (first && whole && !p.accumulate) {
      from = p.bias ? Sums<const float*>{p.bias + n, 0} : Sums<const float*>{zeros, 0};
    } else if (first ? !kWide || !whole || p.bias : kWide && !whole) {
      from = {local, kPanel};
      for (int64_t r = 0; r < tile.size(); ++r)
        for (int64_t i = 0; i < kPanel; i += kLanes)
          store(local + r * kPanel + i, i >= left ? Vec{}
                                        : first   ? first_sum<Out>(p, tile.begin + r, n + i)
                                                  : load_some(c + r * p.N + i, left - i));
    }
    tile_of<Source, by_unit>(tile.size(), a, panel_at(n), units.size(), from, to, next_c(tile, n), next);
    if (to.p == local)
      for (int64_t r = 0; r < tile.size(); ++r)
        for (int64_t i = 0; i < kPanel && i < left; i += kLanes)
          store_some(c + r * p.N + i, load(local + r * kPanel + i), left - i);
  }
};

// Rows [rows) and columns [cols), a block, of c, in blocks of nearly equal size; next_cols: what comes after them.
template <class Source, class Out>
void part(const Product& p, Range rows, Range cols, Range next_cols, uint32_t* workspace) {
  const int64_t units = (p.K + Source::kStep - 1) / Source::kStep;
  uint32_t* a = workspace;
  uint32_t* b = a + 2 * kTileWords;
  auto* partial = reinterpret_cast<float*>(b + kBlockUnits * kBlockCols);
  const auto even = [](int64_t size, int64_t most, int64_t multiple) {
    const int64_t count = (size + most - 1) / most;
    return count ? ((size + count - 1) / count + multiple - 1) / multiple * multiple : multiple;
  };
  const bool keeps_sums = sizeof(Out) < sizeof(float) && units > kBlockUnits;
  const int64_t block_rows = keeps_sums ? even(rows.size(), kBlockRows, 1) : rows.size();
  const int64_t block_units = even(units, kBlockUnits, kLanes);
  const auto from = [](int64_t begin, int64_t size, int64_t end) {
    return Range{begin, begin + size < end ? begin + size : end};
  };
  const auto more = [&](int64_t u) { return u + block_units < units; };
  for (int64_t m = rows.begin; m < rows.end; m += block_rows)
    for (int64_t u = 0; u < units || u == 0; u += block_units)
      Block<Source, Out>{p,
                         from(u, block_units, units),
                         from(m, block_rows, rows.end),
                         cols,
                         from(more(u) ? u + block_units : 0, block_units, units),
                         more(u) || m + block_rows < rows.end ? cols : next_cols,
                         u == 0,
                         !more(u),
                         a,
                         b,
                         partial}
          .run();
}

// Threads form a grid over rows and columns of c, chosen for the least work of the busiest. Threads that write to the
// same rows of c slow each other down: where columns are divided, by 8 % on Zen 5.
struct Grid {
  int64_t rows, cols;
};
Grid grid_of(const Product& p, bool reads_in_place) {
  const int64_t reading = reads_in_place ? 8 : 24;  // a block of b costs as much as this many rows of products
  Grid best{1, 1};
  int64_t least = INT64_MAX;
  const int64_t panels = (p.N + kPanel - 1) / kPanel, tiles = (p.M + kRows - 1) / kRows;
  for (int64_t cols = 1; cols <= p.threads && cols <= panels; ++cols) {
    const int64_t limit = p.threads / cols, rows = limit < tiles ? limit : tiles;
    const int64_t alone = ((panels + cols - 1) / cols) * ((p.M + rows - 1) / rows + reading);
    const int64_t work = cols > 1 ? alone + alone / 12 : alone;
    if (work < least) best = {rows, cols}, least = work;
  }
  return best;
}

// Items are blocks of columns of a part of the rows. They lie so that a thread begins with what it computed in the last
// product of these sizes.
template <class Source, class Out>
void run(const Product& p) {
  const Grid grid = grid_of(p, p.packed && kWordUnits<Source> == 1);
  const int64_t panels = (p.N + kPanel - 1) / kPanel;
  constexpr int64_t kMost = kBlockCols / kPanel, kFew = 4;
  const auto in_blocks = [=](int64_t size) { return (panels + size - 1) / size; };
  const int64_t halves = in_blocks((kMost + 1) / 2), least = halves < kFew ? halves : kFew,
                whole = in_blocks(kMost) > least ? in_blocks(kMost) : least,
                blocks = (whole + grid.cols - 1) / grid.cols * grid.cols;
  const int64_t words = blocked_workspace(p) / p.threads / 4;
  const auto upto = [](int64_t x, int64_t most) { return x < most ? x : most; };
  const auto cols = [=](int64_t block) {
    return Range{upto(panels * block / blocks * kPanel, p.N), upto(panels * (block + 1) / blocks * kPanel, p.N)};
  };
  parallel_items(grid.rows * blocks, [=, &p](int64_t item, int64_t thread) {
    const int64_t row = item / blocks, block = item % blocks;
    const Range rows{p.M * row / grid.rows, p.M * (row + 1) / grid.rows};
    part<Source, Out>(p, rows, cols(block), block + 1 < blocks ? cols(block + 1) : Range{0, 0},
                      static_cast<uint32_t*>(p.workspace) + thread * words);
  });
}

}  // namespace

void blocked(const Product& p) {
  if (!p.bf16_in)
    run<PlainF32, float>(p);
  else if (p.bf16_out)
    run<Bf16, bf16>(p);
  else
    run<Bf16, float>(p);
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
