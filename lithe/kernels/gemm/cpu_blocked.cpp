// Matrix products at the speed of the arithmetic: all threads pack b, some columns and units at a time, unless it is
// packed; the tiles of cpu_block_tiles.h read it in panels that stay in the first cache, while some rows of c stay in
// the second.
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/gemm/cpu_block_tiles.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

// A panel's columns from n on of `count` units from u on, b transposed.
template <class Source>
void pack_turned(const Product& p, int64_t n, int64_t u, int64_t count, uint32_t* to) {
  constexpr int step = Source::kStep;
  const auto* b = static_cast<const typename Source::T*>(p.b);
  for (int64_t i = 0; i < kPanelWords && n + i < p.N; i += kLanes) {
    WordVec r[kLanes];
    turned<Source>(b + (n + i) * p.K + u * step, p.K, p.N - n - i, p.K - u * step, r);
    for (int64_t j = 0; j < count; ++j) store_bits(to + j * kPanelWords + i, r[j]);
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
      for (int64_t c = 0; c < kPanelWords; c += line) __builtin_prefetch(row + (count * step + k) * p.N + c, 0, 2);
    for (int64_t c = 0; c < kPanelWords && c < cols; c += 2 * kLanes) {
      WordVec w[2];
      across_panel<Source>(row + c, p.N, left - i * step, cols - c, w);
      store_bits(to + i * kPanelWords + c, w[0]);
      store_bits(to + i * kPanelWords + c + kLanes, w[1]);
    }
  }
}

// Whether b is packed in words that are units, which are read where they lie.
template <class Source>
bool reads_in_place(const Product& p) {
  return p.packed && kWordUnits<Source> == 1;
}

// Columns [cols) of units [units) of op(b) in panels of kPanelWords columns, `stride` words apart.
struct PackedPart {
  uint32_t* words;
  int64_t stride;
  Range units, cols;
  uint32_t* at(int64_t n, int64_t u) const {
    n -= cols.begin;
    return words + n / kPanelWords * stride + (u - units.begin) * kPanelWords + n % kPanelWords;
  }
};

// Units [units) of the columns [cols) of b; columns beyond N are 0, a copy or not written.
template <class Source>
void pack(const Product& p, Range units, Range cols, const PackedPart& to) {
  constexpr int64_t step = Source::kStep, word = kWordUnits<Source>;
  if (p.packed) {
    const PackedPart from{static_cast<uint32_t*>(const_cast<void*>(p.b)), packed_words<Source>(p.K) * kPanelWords};
    for (int64_t n = cols.begin; n < cols.end; n += kPanelWords)
      for (int64_t u = units.begin; u < units.end; ++u)
        for (int64_t i = 0; i < kPanelWords && n + i < p.N; i += kLanes)  // cols may begin within a panel
          store_bits(to.at(n, u) + i, unit_of<Source>(load_bits<WordVec>(from.at(n + i, u / word)), u % word));
    return;
  }
  const auto* b = static_cast<const typename Source::T*>(p.b);
  for (int64_t u = units.begin; u < units.end; u += kLanes) {
    const int64_t count = upto(kLanes, units.end - u);
    for (int64_t n = cols.begin; n < cols.end; n += kPanelWords)
      p.transpose_b ? pack_turned<Source>(p, n, u, count, to.at(n, u))
                    : pack_rows<Source>(p, b + u * step * p.N + n, p.N - n, p.K - u * step, count, to.at(n, u));
  }
}

// By all threads, so that each reads rows of b from their begin to their end.
template <class Source>
void pack(const Product& p, const PackedPart& to) {
  const bool by_columns = p.packed || p.transpose_b;
  const int64_t each = by_columns ? kPanelWords : 4 * kLanes;
  const Range all = by_columns ? to.cols : to.units;
  parallel_items((all.size() + each - 1) / each, [=, &p](int64_t i, int64_t) {
    const int64_t begin = all.begin + i * each;
    const Range some{begin, upto(begin + each, all.end)};
    pack<Source>(p, by_columns ? to.units : some, by_columns ? some : to.cols, to);
  });
}

// Part i of `count` of some units, each but the last a whole number of looks.
Range units_of(Range all, int64_t i, int64_t count) {
  const int64_t each = count > 1 ? ((all.size() + count - 1) / count + kLook - 1) / kLook * kLook : all.size();
  return {upto(all.begin + i * each, all.end), upto(all.begin + (i + 1) * each, all.end)};
}
int64_t count_of(int64_t size, int64_t most) { return size > most ? (size + most - 1) / most : 1; }

// Rows [rows) and columns [cols) of c: some rows meet all units of b before the next ones do.
template <class Source, class Out>
struct Block {
  const Product& p;
  const PackedPart& b;
  Range rows, cols;
  int64_t units;   // in all
  uint32_t* a;     // a copy of some rows
  float* partial;  // [kStayRows, kBlockCols], the sums between units when c is bf16

  static constexpr bool kWide = sizeof(Out) == sizeof(float);

  void run() const {
    const int64_t chunks = count_of(rows.size(), kStayRows), steps = count_of(b.units.size(), kStayUnits);
    for (int64_t i = 0; i < chunks; ++i)
      for (int64_t k = 0; k < steps; ++k) {
        const bool more = k + 1 < steps;
        step(part_of(rows, i, chunks), units_of(b.units, k, steps), part_of(rows, more ? i : (i + 1) % chunks, chunks),
             units_of(b.units, more ? k + 1 : 0, steps));
      }
  }

  // Rows [some) by units [now); rows [next_some) and units [next_now) of a come next.
  void step(Range some, Range now, Range next_some, Range next_now) const {
    const int64_t half = kPanel > kPanelWords ? b.stride : kPanel / 2;
    const Rows first = rows_of_a(some, now);
    const int64_t pairs = now.size() * kPanelWords * 4 / kStepOfB,
                  looks = count_of(some.size(), kRows) * now.size() / kLook;
    Tile t{.units = now.size(), .lines_of_b = looks ? (pairs + looks - 1) / looks : 0};
    for (int64_t n = cols.begin, panel = 0; n < cols.end; n += kPanel, ++panel) {
      const bool more = n + kPanel < cols.end;
      t.a = first, t.b = {b.at(n, now.begin), half}, t.next_a = a_ahead(next_some, next_now, panel);
      t.next_b.p = reinterpret_cast<const char*>(
          b.at(more ? n + kPanel : cols.begin, more || now.end == b.units.end ? now.begin : now.end));
      2 * (cols.end - n) > kPanel ? by_panel<kVectors>(some, n, now, t) : by_panel<kVectors / 2>(some, n, now, t);
    }
  }

  // The same by V vectors of columns from n on.
  template <int V>
  void by_panel(Range some, int64_t n, Range now, Tile& t) const {
    const bool first = now.begin == 0, last = now.end == units;
    const int64_t left = cols.end - n, a_of_tile = kCopies ? tile_words(now.size()) : kRows * t.a.stride;
    alignas(64) float start[kPanel] = {}, local[kRows * kPanel];
    if (first && p.bias)
      for (int64_t i = 0; i < kPanel && i < left; i += kLanes)
        store(start + i, Vec{} + load_some(p.bias + n + i, left - i));  // not -0: first_sum
    Out* c = static_cast<Out*>(p.c) + some.begin * p.N + n;
    t.from = {local, kPanel}, t.to = {local, kPanel};
    if constexpr (kWide) {
      if (left >= kPanel) t.from = {c, p.N}, t.to = {c, p.N};
    } else {
      float* sums = partial + n - cols.begin;
      if (!first) t.from = {sums, kBlockCols};
      if (!last) t.to = {sums, kBlockCols};
    }
    const bool fills = first ? p.accumulate : t.from.p == local, stores = t.to.p == local;
    if (first) t.from = p.accumulate ? Sums<const float*>{local, kPanel} : Sums<const float*>{start, 0};
    const int64_t from_of_tile = t.from.p == local ? 0 : kRows * t.from.stride,
                  to_of_tile = stores ? 0 : kRows * t.to.stride;
    t.next_c.stride = p.N * int64_t(sizeof(Out));
    for (int64_t m = some.begin, tile = 0; m < some.end; m += kRows, ++tile) {
      const int64_t rows = upto(kRows, some.end - m);
      if (fills)
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t k = 0; k < kPanel && k < left; k += kLanes)
            store(local + r * kPanel + k,
                  first ? first_sum<Out>(p, m + r, n + k) : load_some(c + r * p.N + k, left - k));
      t.next_c.p = reinterpret_cast<const char*>(c + kRows * p.N);
      tile_of<Source, V>(rows, t);
      if (stores)
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t k = 0; k < kPanel && k < left; k += kLanes)
            store_some(c + r * p.N + k, load(local + r * kPanel + k), left - k);
      c += kRows * p.N, t.a.words += a_of_tile, t.from.p += from_of_tile, t.to.p += to_of_tile;
      t.next_a.p += p.transpose_a && tile + 1 == kTilesOfLine ? t.next_a.back : t.next_a.of_tile;
    }
  }

  // Rows [some) of a for units [now): copied, tile by tile or row by row, or, where words are units, as they lie.
  Rows rows_of_a(Range some, Range now) const {
    if constexpr (kCopies) {
      p.transpose_a ? copy_turned(some, now) : copy_tiles(some, now);
      return {a, 0};
    }
    constexpr int step = Source::kStep;
    const auto* from = static_cast<const typename Source::T*>(p.a);
    if (!p.transpose_a) {
      if (sizeof *from == 4) return {static_cast<const uint32_t*>(p.a) + some.begin * p.K + now.begin, p.K};
      for (int64_t m = some.begin; m < some.end; ++m)
        row_units<Source>(p, m, now.begin, now.end, a + (m - some.begin) * kStayStride);
      return {a, kStayStride};
    }
    for (int64_t u = now.begin; u < now.end; u += kLanes)
      for (int64_t m = some.begin; m < some.end; m += kLanes) {
        WordVec r[kLanes] = {};
        for (int64_t i = 0; i < kLanes && u + i < now.end; ++i)
          r[i] = Source::across(from + (u + i) * step * p.M + m, p.M, p.K - (u + i) * step, p.M - m);
        transpose(r);
        for (int64_t i = 0; i < kLanes; ++i) store_bits(a + (m - some.begin + i) * kStayStride + u - now.begin, r[i]);
      }
    return {a, kStayStride};
  }

  void copy_tiles(Range some, Range now) const {
    constexpr int step = Source::kStep;
    uint32_t* tile = a;
    for (int64_t m = some.begin; m < some.end; m += kRows, tile += tile_words(now.size())) {
      const auto* from = static_cast<const typename Source::T*>(p.a) + m * p.K;
      for (int64_t u = now.begin; u < now.end; u += kLanes) {
        WordVec r[kRows];
#pragma GCC unroll 6
        for (int64_t k = 0; k < kRows; ++k)
          r[k] = Source::along(from + (m + k < some.end ? k : 0) * p.K + u * step, p.K - u * step);
        store_by_unit(r, tile + (u - now.begin) * kRows);
      }
    }
  }

  // Of a transposed: some units of all tiles at a time, so that whole lines are read.
  void copy_turned(Range some, Range now) const {
    constexpr int64_t step = Source::kStep, kGroup = 8, kStored = 8;
    const int64_t words = tile_words(now.size()), stride = step * p.M;
    for (int64_t u = now.begin; u < now.end; u += kGroup) {
      const auto* unit = static_cast<const typename Source::T*>(p.a) + u * stride;
      const bool whole = u + kGroup <= now.end && (u + kGroup) * step <= p.K;
      uint32_t* tile = a + (u - now.begin) * kRows;
      int64_t m = some.begin;
      if constexpr (sizeof *unit == 4) {
        for (; whole && m < some.end && m + kStored <= p.M; m += kRows, tile += words)
#pragma GCC unroll 8
          for (int64_t k = 0; k < kGroup; ++k) std::memcpy(tile + k * kRows, unit + k * stride + m, kStored * 4);
      } else if constexpr (kLanes >= kStored) {
        constexpr int64_t tiles = 2 * kLanes / kRows;
        for (; whole && m + tiles * kRows <= some.end && m + 2 * kLanes <= p.M;
             m += tiles * kRows, tile += tiles * words)
          for (int64_t k = 0; k < kGroup; ++k) {
            WordVec w[2];
            across_two<Source>(unit + k * stride + m, p.M, kLanes, w);
            for (uint32_t i = 0; i < tiles; ++i)
              store_first<kStored>(tile + i * words + k * kRows,
                                   shuffled(w[0], w[1], (WordVec)lane_numbers() + uint32_t(i * kRows)));
          }
      }
      for (; m < some.end; m += kRows, tile += words)
        for (int64_t k = 0; k < kGroup && u + k < now.end; ++k)
          for (int64_t r = 0; r < kRows && m + r < p.M; r += kLanes)
            store_first<kStored>(tile + k * kRows + r,
                                 Source::across(unit + k * stride + m + r, p.M, p.K - (u + k) * step, p.M - m - r));
    }
  }

  // Of units [of) of rows [some) of a, what tiles ask for while they meet a panel: of a tile's rows, or of as many
  // units as it has looks, a line, other lines with other panels.
  Ahead a_ahead(Range some, Range of, int64_t panel) const {
    if (of.size() == 0) return {};
    constexpr int64_t size = sizeof(typename Source::T), step = Source::kStep;
    const int64_t row = (p.transpose_a ? p.M : p.K) * size, unit = step * (p.transpose_a ? row : size);
    const int64_t lines = ((p.transpose_a ? some.size() : of.size() * step) * size + 63) / 64;
    const char* p_of = static_cast<const char*>(p.a) + some.begin * (p.transpose_a ? size : row) + of.begin * unit;
    if (!p.transpose_a) return {p_of + panel % lines * 64, row, kRows * row, 0};
    constexpr int64_t looks = kStayUnits / kLook;
    return {p_of + panel * (kStayRows / kRows / kTilesOfLine) % lines * 64, unit, looks * unit,
            64 - (kTilesOfLine - 1) * looks * unit};
  }
};

// Threads form a grid over rows and columns of c, chosen for the least work of the busiest, where b costs as much as
// `reading` rows of products. Threads that write to the same rows of c slow each other down: where columns are divided,
// by 8 % on Zen 5.
struct Grid {
  int64_t rows, cols;
};
Grid grid_of(const Product& p, int64_t N, int64_t reading) {
  Grid best{1, 1};
  int64_t least = INT64_MAX;
  const int64_t panels = (N + kPanel - 1) / kPanel, tiles = (p.M + kRows - 1) / kRows;
  for (int64_t cols = 1; cols <= p.threads && cols <= panels; ++cols) {
    const int64_t limit = p.threads / cols, rows = upto(limit, tiles);
    const int64_t alone = ((panels + cols - 1) / cols) * ((p.M + rows - 1) / rows + reading);
    const int64_t work = cols > 1 ? alone + alone / 12 : alone;
    if (work < least) best = {rows, cols}, least = work;
  }
  return best;
}
// Items are blocks of columns of a part of the rows. They lie so that a thread begins with what it computed in the last
// product of these sizes. f(rows, columns, words of the thread, thread)
template <class F>
void for_items(const Product& p, Grid grid, Range cols, int64_t reading, F&& f) {
  constexpr int64_t kMost = kBlockCols / kPanel;
  const int64_t panels = (cols.size() + kPanel - 1) / kPanel, words = blocked_words_of_thread(p);
  const int64_t blocks = ((panels + kMost - 1) / kMost + grid.cols - 1) / grid.cols * grid.cols;
  // Some items for each thread, so that none waits long for the slowest, while b costs a sixteenth at most. Narrower
  // blocks would cost more: all of a is copied for each.
  const int64_t items = grid.rows * blocks, wanted = (4 * p.threads + items - 1) / items,
                times = p.threads == 1 ? 1 : upto(wanted, p.M / (grid.rows * 16 * reading));
  const int64_t rows = grid.rows * (times < 1 ? 1 : times);
  parallel_items(rows * blocks, [=, &p](int64_t item, int64_t thread) {
    const int64_t row = item / blocks, block = item % blocks;
    const auto from = [&](int64_t i) { return upto(cols.begin + panels * i / blocks * kPanel, cols.end); };
    f(part_of({0, p.M}, row, rows), Range{from(block), from(block + 1)},
      static_cast<uint32_t*>(p.workspace) + thread * words, thread);
  });
}

// The parts of columns [cols) of b that are packed at once: f(units, columns).
template <class F>
void for_parts(const BlockedPack& most, int64_t units, Range cols, F&& f) {
  const int64_t blocks = count_of(units, most.units);
  for (int64_t n = cols.begin; n < cols.end; n += most.cols)
    for (int64_t i = 0; i < blocks; ++i) f(units_of({0, units}, i, blocks), Range{n, upto(n + most.cols, cols.end)});
}

template <class Source, class Out>
void run(const Product& p) {
  const int64_t units = (p.K + Source::kStep - 1) / Source::kStep;
  const auto multiply = [&p, units](const PackedPart& b, Range rows, Range cols, uint32_t* a) {
    Block<Source, Out>{p, b, rows, cols, units, a, reinterpret_cast<float*>(a + kWordsOfA)}.run();
  };
  // Packed or read, b costs as much as this many rows.
  constexpr int64_t kPacking = 64, kReading = 8;
  const auto by_items = [&](const PackedPart& b) {
    for_items(p, grid_of(p, b.cols.size(), kReading), b.cols, kReading,
              [=](Range rows, Range cols, uint32_t* a, int64_t) { multiply(b, rows, cols, a); });
  };
  if (reads_in_place<Source>(p)) {
    auto* words = static_cast<uint32_t*>(const_cast<void*>(p.b));
    return by_items({words, packed_words<Source>(p.K) * kPanelWords, {0, units}, {0, p.N}});
  }
  uint32_t* packed = static_cast<uint32_t*>(p.workspace) + p.threads * blocked_words_of_thread(p);
  const Grid grid = grid_of(p, p.N, kPacking);
  const BlockedPack each(false, p.N, units, p.bf16_out);
  // Few rows: what one thread packs for others takes them longer to read than to pack.
  const bool alone = grid.cols > 1 && grid.rows == 1 && each.cols >= upto(p.N / grid.cols, kBlockCols / 2);
  if (!alone)
    return for_parts(BlockedPack(true, p.N, units, p.bf16_out), units, {0, p.N}, [&](Range some, Range cols) {
      const PackedPart b{packed, some.size() * kPanelWords, some, cols};
      pack<Source>(p, b);
      by_items(b);
    });
  for_items(p, grid, {0, p.N}, kPacking, [=, &p](Range rows, Range all, uint32_t* a, int64_t thread) {
    for_parts(each, units, all, [&](Range some, Range cols) {
      const PackedPart b{packed + thread * each.words, some.size() * kPanelWords, some, cols};
      pack<Source>(p, some, cols, b);
      multiply(b, rows, cols, a);
    });
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
