// Matrix products at the speed of the arithmetic: b is packed block by block into panels that stay in the second-level
// cache, and multiplied by the tiles of cpu_block_tiles.h.
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/gemm/cpu_block_tiles.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

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
    for (int64_t c = 0; c < kPanel && c < cols; c += 2 * kLanes) {
      WordVec w[2];
      across_panel<Source>(row + c, p.N, left - i * step, cols - c, w);
      store_bits(to + i * kPanel + c, w[0]);
      store_bits(to + i * kPanel + c + kLanes, w[1]);
    }
  }
}

// Whether b is packed in words that are units, which are read where they lie.
template <class Source>
bool reads_in_place(const Product& p) {
  return p.packed && kWordUnits<Source> == 1;
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
  Range units, rows, cols, next_units, next_rows, next_cols;  // next: what comes after this
  bool first, last;
  uint32_t *a, *b;
  float* partial;  // [kBlockRows, kBlockCols], the sums between blocks when c is bf16

  static constexpr bool kWide = sizeof(Out) == sizeof(float);

  bool in_place() const { return reads_in_place<Source>(p); }
  Panel panel_at(int64_t n) const {
    if (in_place()) return {packed_at<Source>(p, n, units.begin), kPanelWords};
    return {b + (n - cols.begin) * units.size(), kPanel};
  }

  void run() const {
    if (!in_place()) pack<Source>(p, units, cols, b);
    if constexpr (kPanelsStay)
      by_panels();
    else
      p.transpose_a ? by_tiles<true>() : by_tiles<false>();
  }

  void by_panels() const {
    const int64_t chunks = (rows.size() + kStayRows - 1) / kStayRows;
    PanelTile t{{}, {}, units.size(), {}, next_b()};
    for (int64_t i = 0; i < chunks; ++i) {
      const Range some = part_of(rows, i, chunks);
      const Rows of_a = rows_of_a(some);
      t.next_a = i + 1 < chunks         ? a_ahead(part_of(rows, i + 1, chunks), units)
                 : next_rows.size() > 0 ? a_ahead(part_of(next_rows, 0, chunks), next_units)
                                        : Ahead{};
      for (int64_t n = cols.begin; n < cols.end; n += kPanel) {
        if (in_place()) t.next_b = next_panel(n);
        t.a = of_a, t.b = panel_at(n);
        2 * (cols.end - n) > kPanel ? by_panel<kVectors>(some, n, t) : by_panel<kVectors / 2>(some, n, t);
      }
    }
  }

  // All rows by V vectors of columns. One row alone would wait for its own sums: four rows are two tiles.
  template <int V>
  void by_panel(Range some, int64_t n, PanelTile& t) const {
    for (int64_t m = some.begin, size; m < some.end; m += size, t.a.words += size * t.a.stride) {
      const int64_t left = some.end - m;
      size = left == kRows + 1 ? (kRows + 1) / 2 : left < kRows ? left : kRows;
      t.next_c = c_ahead({m + size, m + size + kRows}, n);
      with_sums({m, m + size}, n, [&](Sums<const float*> from, Sums<float*> to) {
        t.from = from, t.to = to;
        m == some.begin ? tile_by_panel_of<Source, V, true>(size, t) : tile_by_panel_of<Source, V, false>(size, t);
      });
    }
  }

  // Rows of a as they lie, or, where they are no units, copied.
  Rows rows_of_a(Range some) const {
    constexpr int step = Source::kStep;
    const auto* from = static_cast<const typename Source::T*>(p.a);
    if (!p.transpose_a) {
      if (sizeof *from == 4) return {static_cast<const uint32_t*>(p.a) + some.begin * p.K + units.begin, p.K};
      for (int64_t m = some.begin; m < some.end; ++m)
        row_units<Source>(p, m, units.begin, units.end, a + (m - some.begin) * kStayStride);
      return {a, kStayStride};
    }
    for (int64_t u = units.begin; u < units.end; u += kLanes)
      for (int64_t m = some.begin; m < some.end; m += kLanes) {
        WordVec r[kLanes] = {};
        for (int64_t i = 0; i < kLanes && u + i < units.end; ++i)
          r[i] = Source::across(from + (u + i) * step * p.M + m, p.M, p.K - (u + i) * step, p.M - m);
        transpose(r);
        for (int64_t i = 0; i < kLanes; ++i) store_bits(a + (m - some.begin + i) * kStayStride + u - units.begin, r[i]);
      }
    return {a, kStayStride};
  }

  template <bool by_unit>
  void by_tiles() const {
    const int64_t tiles = (rows.size() + kRows - 1) / kRows, panels = (cols.size() + kPanel - 1) / kPanel;
    const int64_t looks = panels * ((units.size() + kLook - 1) / kLook);
    const auto tile = [&](int64_t t) { return part_of(rows, t, tiles); };
    const auto place = [&](int64_t t) { return a + t % 2 * kTileWords; };
    Next<Source, by_unit> next;
    next.b = next_b();
    next.lines = next.b.rows * next.b.lines / (tiles * panels) + 1;
    Mover<Source, by_unit>(p, units, tile(0), place(0)).finish(p, units, tile(0), place(0));
    for (int64_t t = 0; t < tiles; ++t) {
      const bool more = t + 1 < tiles;
      if (more) next.a = {p, units, tile(t + 1), place(t + 1)};
      next.steps = looks ? (next.a.left + looks - 1) / looks : 0;
      for (int64_t n = cols.begin; n < cols.end; n += kPanel)
        with_sums(tile(t), n, [&](Sums<const float*> from, Sums<float*> to) {
          tile_of<Source, by_unit>(tile(t).size(), place(t), panel_at(n), units.size(), from, to,
                                   c_ahead(tile(t), n + kPanel), next);
        });
      if (more) next.a.finish(p, units, tile(t + 1), place(t + 1));
    }
  }

  // A tile of c from column n on, if there is one.
  Ahead c_ahead(Range tile, int64_t n) const {
    const bool more = n < cols.end && tile.end <= rows.end;
    return {static_cast<const char*>(p.c) + (tile.begin * p.N + n) * int64_t(sizeof(Out)), p.N * int64_t(sizeof(Out)),
            tile.size(), more ? lines_of(kPanel * int64_t(sizeof(Out))) : 0};
  }

  // Units [of) of rows [some) of a.
  Ahead a_ahead(Range some, Range of) const {
    constexpr int64_t size = sizeof(typename Source::T), step = Source::kStep;
    const char* from = static_cast<const char*>(p.a);
    return p.transpose_a ? Ahead{from + (of.begin * step * p.M + some.begin) * size, p.M * size, of.size() * step,
                                 lines_of(some.size() * size)}
                         : Ahead{from + (some.begin * p.K + of.begin * step) * size, p.K * size, some.size(),
                                 lines_of(of.size() * step * size)};
  }

  // Of a b in place: the panel after that of column n, if there is one.
  Ahead next_panel(int64_t n) const {
    const bool more = n + kPanel < cols.end;
    if (!more && next_cols.size() <= 0) return {};
    const Range of = more ? units : next_units;
    return {reinterpret_cast<const char*>(packed_at<Source>(p, more ? n + kPanel : next_cols.begin, of.begin)), 64, 1,
            lines_of(of.size() * kPanelWords * 4)};
  }

  // The next block of b.
  Ahead next_b() const {
    constexpr int64_t size = sizeof(typename Source::T);
    if (next_cols.size() <= 0) return {};
    if (in_place())
      return {reinterpret_cast<const char*>(packed_at<Source>(p, next_cols.begin, next_units.begin)),
              packed_words<Source>(p.K) * kPanelWords * 4, (next_cols.size() + kPanel - 1) / kPanel,
              lines_of(next_units.size() * kPanelWords * 4)};
    if (p.packed || p.transpose_b) return {};
    const int64_t begin = next_units.begin * Source::kStep, end = next_units.end * Source::kStep;
    return {static_cast<const char*>(p.b) + (begin * p.N + next_cols.begin) * size, p.N * size,
            (end < p.K ? end : p.K) - begin, lines_of(next_cols.size() * size)};
  }

  // multiply(from, to) of the sums of rows [tile) and a panel's columns from n on, from where they lie to where they
  // go.
  template <class F>
  [[gnu::always_inline]] void with_sums(Range tile, int64_t n, F&& multiply) const {
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
    multiply(from, to);
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
  uint32_t* b = a + kWordsOfA;
  auto* partial = reinterpret_cast<float*>(b + kBlockUnits * kBlockCols);
  const auto even = [](int64_t size, int64_t most, int64_t multiple) {
    const int64_t count = (size + most - 1) / most;
    return count ? ((size + count - 1) / count + multiple - 1) / multiple * multiple : multiple;
  };
  const bool keeps_sums = sizeof(Out) < sizeof(float) && units > kMostUnits;
  const int64_t block_rows = kPanelsStay && reads_in_place<Source>(p) ? even(rows.size(), kStayRows, 1)
                             : keeps_sums                             ? even(rows.size(), kBlockRows, 1)
                                                                      : rows.size();
  const int64_t block_units = even(units, kMostUnits, kLanes);
  const auto from = [](int64_t begin, int64_t size, int64_t end) {
    return Range{begin, begin + size < end ? begin + size : end};
  };
  const auto rows_from = [&](int64_t m) { return from(m, block_rows, rows.end); };
  for (int64_t m = rows.begin; m < rows.end; m += block_rows)
    for (int64_t u = 0; u < units || u == 0; u += block_units) {
      const bool more_units = u + block_units < units, more_rows = m + block_rows < rows.end;
      const Range after = more_units || more_rows ? cols : next_cols;
      Block<Source, Out>{p,
                         from(u, block_units, units),
                         rows_from(m),
                         cols,
                         from(more_units ? u + block_units : 0, block_units, units),
                         after.size() <= 0 ? Range{0, 0}
                                           : rows_from(more_units  ? m
                                                       : more_rows ? m + block_rows
                                                                   : rows.begin),
                         after,
                         u == 0,
                         !more_units,
                         a,
                         b,
                         partial}
          .run();
    }
}

// Threads form a grid over rows and columns of c, chosen for the least work of the busiest. Threads that write to the
// same rows of c slow each other down: where columns are divided, by 8 % on Zen 5.
struct Grid {
  int64_t rows, cols;
};
Grid grid_of(const Product& p, int64_t reading) {
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
  // A block of b costs as much as this many rows of products.
  const int64_t reading = reads_in_place<Source>(p) ? 8 : 24;
  const Grid grid = grid_of(p, reading);
  const int64_t panels = (p.N + kPanel - 1) / kPanel;
  constexpr int64_t kMost = kBlockCols / kPanel;
  const int64_t blocks = ((panels + kMost - 1) / kMost + grid.cols - 1) / grid.cols * grid.cols;
  const auto upto = [](int64_t x, int64_t most) { return x < most ? x : most; };
  // Some items for each thread, so that none waits long for the slowest, while b costs a sixteenth at most. Narrower
  // blocks would cost more: all of a is copied for each.
  const int64_t items = grid.rows * blocks, wanted = (4 * p.threads + items - 1) / items,
                times = p.threads == 1 ? 1 : upto(wanted, p.M / (grid.rows * 16 * reading));
  const int64_t rows = grid.rows * (times < 1 ? 1 : times);
  const int64_t words = blocked_workspace(p) / p.threads / 4;
  const auto cols = [=](int64_t block) {
    return Range{upto(panels * block / blocks * kPanel, p.N), upto(panels * (block + 1) / blocks * kPanel, p.N)};
  };
  parallel_items(rows * blocks, [=, &p](int64_t item, int64_t thread) {
    const int64_t row = item / blocks, block = item % blocks;
    part<Source, Out>(p, part_of({0, p.M}, row, rows), cols(block), block + 1 < blocks ? cols(block + 1) : Range{0, 0},
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
