// Products with integer weights. A panel of 32 outputs meets a few rows at a time, all inputs in one go, sums in
// registers: with one row the weights stream from memory, with many the integer arithmetic is the bound. Integers sum
// exactly, so blocks of rows of any size give a row the same bits.
#include "lithe/kernels/quantized_product/cpu.h"

#include <algorithm>
#include <cstring>

#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/quantized_product/cpu_blocks.h"
#include "lithe/kernels/quantized_product/cpu_rows.h"
#include "lithe/kernels/quantized_product/cpu_tile.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

// Rows of a block: their sums, the weights and a word of a row fill the registers.
#if defined(__AVX512VNNI__)
constexpr int kRows8 = 14, kRows4 = 6;
#elif defined(__AVX512F__)
constexpr int kRows8 = 10, kRows4 = 6;
#elif defined(__AVXVNNI__)
constexpr int kRows8 = 6, kRows4 = 4;
#elif defined(__AVX2__)
constexpr int kRows8 = 4, kRows4 = 3;
#else
constexpr int kRows8 = 3, kRows4 = 2;
#endif

// ---- rows to integers

struct Rows {
  uint32_t* words;  // block of R rows from m at words + m * units * words_of_unit(): [unit][R][words_of_unit()]
  int32_t* sums;    // likewise, [group][R]: what takes the weights' offset off a sum of products, modulo 2^32
  float* steps;     // [M]
};

Rows rows_in(const QuantizedProduct& p, Form form) {
  auto* words = static_cast<uint32_t*>(p.workspace);
  auto* sums = reinterpret_cast<int32_t*>(words + p.M * p.units * words_of_unit(form));
  return {words, sums, reinterpret_cast<float*>(sums + p.M * p.groups)};
}

// What the weights of a format have more than their values; of blocks with minimums the sum itself is kept.
uint32_t offset_of(const QuantizedProduct& p, Form form) {
  if (form == Form::int8) return 128;
  if (form == Form::int4) return 8;
  const PackedFormat format = p.args->w->format;
  return block_format(format).minimums ? uint32_t(-1) : uint32_t(code_offset(format));
}

// Row m, one of the R rows of the block that begins at `first`.
template <class T, Form form>
void quantize_row(const QuantizedProduct& p, const Rows& to, int64_t m, int64_t first, int64_t R) {
  const uint32_t offset = offset_of(p, form);
  const T* x = pointer<T>(p.args->x) + m * p.K;
  const RowStep step = step_of(x, p.K);
  to.steps[m] = step.size;
  constexpr int kWords = words_of_unit(form);
  uint32_t* words = to.words + (first * p.units + (m - first)) * kWords;
  int32_t* sums = to.sums + first * p.groups + (m - first);
  const int64_t group = p.group ? p.group : p.units * 4;
  for (int64_t g = 0; g < p.groups; ++g) {
    IntVec sum{};
    for (int64_t k = g * group; k < (g + 1) * group; k += kLanes) {
      const IntVec q = rounded(x, p.K, k, step);
      sum += q;
      if constexpr (kWords == 2) {
        const HalfVec lanes = __builtin_convertvector(lane_numbers(), HalfVec),
                      swapped = (lanes & 0xfffc) | (lanes & 1) << 1 | (lanes >> 1 & 1),
                      numbers = shuffled(__builtin_convertvector(q, HalfVec), swapped);
        uint64_t four[kLanes / 4];
        std::memcpy(four, &numbers, sizeof four);
        for (int i = 0; i < kLanes / 4 && k / 4 + i < p.units; ++i)
          std::memcpy(words + (k / 4 + i) * R * 2, four + i, sizeof four[i]);
      } else {
        const ByteVec bytes = __builtin_convertvector(q, ByteVec);
        uint32_t four[kLanes / 4];
        std::memcpy(four, &bytes, sizeof four);
        for (int i = 0; i < kLanes / 4 && k / 4 + i < p.units; ++i) words[(k / 4 + i) * R] = four[i];
      }
    }
    sums[g * R] = step.zero ? 0 : int32_t(0u - offset * uint32_t(total_of(sum)));
  }
}

// sum = what the integers sum to, as f32; stream by stream.
template <int R, int S>
[[gnu::always_inline]] inline void tile_int8(const QuantizedProduct& p, const uint32_t* x, const int32_t* sums,
                                             Streams w, Tile<R * S>& out) {
  // Few rows: more sums at once, because each waits for its last.
  constexpr int kChains = kPairs ? 1 : R == 1 ? 4 / S : R <= 3 ? 2 : 1, kWords = words_of_unit(Form::int8);
  IntVec sum[kChains][R * S][kVectors];
#pragma GCC unroll 4
  for (int c = 0; c < kChains; ++c)
#pragma GCC unroll 16
    for (int r = 0; r < R * S; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[c][r][v] = c ? IntVec{} : IntVec{} + sums[r % R];
  const auto step = [&](int64_t u, int c) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int s = 0; s < S; ++s) {
      const uint8_t* from = w.w + s * w.apart + u * kUnitBytes;
      const Unit b[kVectors] = {Unit(weights_at<0>(from)), Unit(weights_at<1>(from))};
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v)
          sum[c][s * R + r][v] = dot(sum[c][s * R + r][v], b[v], x + (u * R + r) * kWords);
    }
  };
  int64_t u = 0;
  for (; u + kChains <= p.units; u += kChains)
#pragma GCC unroll 4
    for (int c = 0; c < kChains; ++c) step(u + c, c);
  for (; u < p.units; ++u) step(u, 0);
#pragma GCC unroll 16
  for (int r = 0; r < R * S; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      WordVec all = (WordVec)sum[0][r][v];
#pragma GCC unroll 4
      for (int c = 1; c < kChains; ++c) all += (WordVec)sum[c][r][v];
      out.sum[r][v] = __builtin_convertvector((IntVec)all, Vec);
    }
}

// sum += the products of R rows of words x with 32 inputs (4 bits) of each stream of weights, where units of low halves
// take turns with those of high ones.
template <int R, int S>
[[gnu::always_inline]] inline void add_int4(const uint32_t* x, Streams w, IntVec (&sum)[R * S][kVectors]) {
#ifdef LITHE_PAIRS
  // Sums of pairs stay in 16 bits for 8 units: 8 * 2 * 15 * 127 < 2^15.
  Integers words[R * S][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < R * S; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) words[r][v] = Integers{};
#pragma GCC unroll 1
  for (int pair = 0; pair < 4; ++pair, w.w += kUnitBytes, x += 2 * R)
#pragma GCC unroll 4
    for (int s = 0; s < S; ++s) {
      const uint8_t* from = w.w + s * w.apart;
      const WordVec both[kVectors] = {weights_at<0>(from), weights_at<1>(from)};
#pragma GCC unroll 2
      for (int half = 0; half < 2; ++half) {
        Integers b[kVectors];
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) b[v] = (Integers)((half ? both[v] >> 4 : both[v]) & 0x0f0f0f0f);
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
          const auto a = (Integers)repeat(x[half * R + r]);
#pragma GCC unroll 2
          for (int v = 0; v < kVectors; ++v) {
            Integers& to = words[s * R + r][v];
            to = add_words(to, pairs_of_bytes(b[v], a));
            asm("" : "+v"(to));  // in this order: another needs more registers than there are
          }
        }
      }
    }
#pragma GCC unroll 16
  for (int r = 0; r < R * S; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[r][v] += (IntVec)pairs_of_words(words[r][v], ones());
#else
  for (int pair = 0; pair < 4; ++pair, w.w += kUnitBytes, x += 2 * R)
#pragma GCC unroll 4
    for (int s = 0; s < S; ++s) {
      const uint8_t* from = w.w + s * w.apart;
      const WordVec both[kVectors] = {weights_at<0>(from), weights_at<1>(from)};
      const Unit low[kVectors] = {Unit(both[0] & 0x0f0f0f0f), Unit(both[1] & 0x0f0f0f0f)};
      const Unit high[kVectors] = {Unit(both[0] >> 4 & 0x0f0f0f0f), Unit(both[1] >> 4 & 0x0f0f0f0f)};
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          IntVec& to = sum[s * R + r][v];
          to = dot(dot(to, low[v], x + r), high[v], x + R + r);
        }
    }
#endif
}

// sum = the groups' sums times their scales.
template <int R, int S>
[[gnu::always_inline]] inline void tile_int4(const QuantizedProduct& p, const uint32_t* x, const int32_t* sums,
                                             Streams w, int64_t column, Tile<R * S>& out) {
  Vec total[R * S][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < R * S; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) total[r][v] = Vec{};
  const int64_t units = p.group / 4;
  for (int64_t g = 0; g < p.groups; ++g, w.w += p.group_bytes, sums += R, x += units * R) {
    IntVec sum[R * S][kVectors];
#pragma GCC unroll 16
    for (int r = 0; r < R * S; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] = IntVec{} + sums[r % R];
    const Streams tile{w.w + column * 4, w.apart};
    add_int4<R, S>(x, tile, sum);
    if (units > 8) [[unlikely]]  // a group of 64
      add_int4<R, S>(x + 8 * R, {tile.w + 4 * kUnitBytes, tile.apart}, sum);
#pragma GCC unroll 4
    for (int s = 0; s < S; ++s) {
      const uint8_t* group = w.outputs ? w.w : w.w + s * w.apart;
      const auto* scales = reinterpret_cast<const bf16*>(group + units / 2 * kUnitBytes) + column + s * w.outputs;
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const Vec scale = load(scales + v * kLanes);
#pragma GCC unroll 16
        for (int r = s * R; r < (s + 1) * R; ++r) total[r][v] += __builtin_convertvector(sum[r][v], Vec) * scale;
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R * S; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) out.sum[r][v] = total[r][v];
}

// y of R rows from m and kTile outputs from n, of tile rows from `first`.
template <class Out, int R, class AnyTile>
[[gnu::always_inline]] inline void finish(const QuantizedProduct& p, const Rows& rows, const AnyTile& tile, int first,
                                          int64_t m, int64_t n) {
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      const int64_t at = n + v * kLanes;
      if (at >= p.N) continue;
      put<Out>(p, m + r, at, tile.sum[first + r][v] * rows.steps[m + r]);
    }
}

// R rows from m and a panel in blocks: all of its outputs together, so that weights are read in order, unless there are
// too few registers for some rows; with one row those of S panels, `apart` panels from each other.
template <class Out, int R, int S = 1>
[[gnu::noinline]] void panel_in_blocks(const QuantizedProduct& p, const Rows& rows, int64_t m, int64_t panel,
                                       int64_t apart = 0) {
  constexpr int kAll = kPanel / kLanes, kTogether = R == 1 || kTile == kPanel ? S * kAll : 1;
  for (int first = 0; first < S * kAll; first += kTogether) {
    Vec sum[kTogether][R];
    with_block_format(
        p.args->w->format, [&]<PackedFormat format>() __attribute__((always_inline)) {
          add_blocks<format, R, kTogether>(p, rows.words + m * p.units * words_of_unit(Form::blocks),
                                           rows.sums + m * p.groups, p.w + panel * p.panel_bytes, first * kLanes,
                                           apart * p.panel_bytes, sum);
        });
    for (int v = 0; v < kTogether; ++v)
      for (int r = 0; r < R; ++r) {
        const int64_t n = (panel + v / kAll * apart) * kPanel + (first + v) % kAll * kLanes;
        if (n < p.N) put<Out>(p, m + r, n, sum[v][r] * rows.steps[m + r]);
      }
  }
}

// R rows from m, and S panels from `panel`, `apart` panels from each other.
template <class Out, Form form, int R, int S = 1>
[[gnu::noinline]] void block(const QuantizedProduct& p, const Rows& rows, int64_t m, int64_t panel, int64_t apart = 0) {
  const uint32_t* x = rows.words + m * p.units * words_of_unit(form);
  const int32_t* sums = rows.sums + m * p.groups;
  const Streams w{p.w + panel * p.panel_bytes, apart * p.panel_bytes};
  constexpr int kInside = kPanel / kTile;
  if constexpr (R == 1 && S == 1 && kInside > 1) {
    const Streams inside{w.w, kTile * 4, kTile};
    Tile<kInside> tile;
    if constexpr (form == Form::int4)
      tile_int4<1, kInside>(p, x, sums, inside, 0, tile);
    else
      tile_int8<1, kInside>(p, x, sums, inside, tile);
    for (int i = 0; i < kInside; ++i) finish<Out, 1>(p, rows, tile, i, m, panel * kPanel + i * kTile);
    return;
  }
  for (int64_t column = 0; column < kPanel && panel * kPanel + column < p.N; column += kTile) {
    Tile<R * S> tile;
    if constexpr (form == Form::int4)
      tile_int4<R, S>(p, x, sums, w, column, tile);
    else
      tile_int8<R, S>(p, x, sums, {w.w + column * 4, w.apart}, tile);
    for (int s = 0; s < S; ++s) finish<Out, R>(p, rows, tile, s * R, m, (panel + s * apart) * kPanel + column);
  }
}

template <class Out, Form form, int R>
void block_of(int64_t count, const QuantizedProduct& p, const Rows& rows, int64_t m, int64_t panel) {
  if (count == R) {
    if constexpr (form == Form::blocks)
      return panel_in_blocks<Out, R>(p, rows, m, panel);
    else
      return block<Out, form, R>(p, rows, m, panel);
  }
  if constexpr (R > 1) block_of<Out, form, R - 1>(count, p, rows, m, panel);
}

int64_t panels_of(const QuantizedProduct& p) { return (p.N + kPanel - 1) / kPanel; }

template <class T, class Out, Form form>
void run(std::span<const QuantizedProduct> products) {
  constexpr int kRows = form == Form::int8 ? kRows8 : kRows4;
  const QuantizedProduct& one = products[0];  // x, and so M, K and the rounded rows, are the same in all
  const Rows rows = rows_in(one, form);
  const int64_t M = one.M, blocks = (M + kRows - 1) / kRows;
  parallel(blocks, (1 << 16) / (one.K * kRows) + 1, [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = M * b / blocks, last = M * (b + 1) / blocks;
      for (int64_t m = first; m < last; ++m) quantize_row<T, form>(one, rows, m, first, last - first);
    }
  });
  constexpr int64_t kWorth = 1 << 17;  // multiply-adds below which a second thread costs more than it saves
  const int64_t grain = kWorth / (M * one.K * kPanel + 1) + 1;
  if (M == 1) {
    int64_t panels = 0;
    for (const QuantizedProduct& p : products) panels += panels_of(p);
    return parallel_pieces(panels, grain, [&](int64_t begin, int64_t end) {
      for (const QuantizedProduct& p : products) {
        const int64_t count = panels_of(p), last = end < count ? end : count;
        if (begin < last) {
          // Where a tile is a panel, two panels are read faster than one.
          constexpr bool kTwo = kTile == kPanel;
          const int64_t half = kTwo ? (last - begin) / 2 : 0;
          for (int64_t i = begin; kTwo && i < begin + half; ++i)
            if constexpr (form == Form::blocks)
              panel_in_blocks<Out, 1, kTwo ? 2 : 1>(p, rows, 0, i, half);
            else
              block<Out, form, 1, kTwo ? 2 : 1>(p, rows, 0, i, half);
          for (int64_t i = begin + 2 * half; i < last; ++i) block_of<Out, form, 1>(1, p, rows, 0, i);
        }
        begin = begin < count ? 0 : begin - count;
        end -= count;
      }
    });
  }
  // Many rows: a thread multiplies those that it rounded, so that what one writes no other reads; those of an item stay
  // in a cache of the second level while panel after panel meets them. Few are read faster than weights, which each
  // thread then has a part of.
  constexpr int64_t kStay = 256 << 10, kRowsEach = 64, kItems = 8;
  const int64_t together = kStay / (kRows * one.units * 4 * words_of_unit(form)) + 1, most = threads();
  const int64_t parts = M < kRowsEach * most ? 1 : (blocks + together * most - 1) / (together * most) * most;
  for (const QuantizedProduct& p : products) {
    const auto multiply = [=, &p](int64_t part, int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel)
        for (int64_t b = blocks * part / parts; b < blocks * (part + 1) / parts; ++b) {
          const int64_t first = M * b / blocks, last = M * (b + 1) / blocks;
          block_of<Out, form, kRows>(last - first, p, rows, first, panel);
        }
    };
    const int64_t panels = panels_of(p);
    if (parts == 1) {
      parallel_pieces(panels, grain, [=](int64_t begin, int64_t end) { multiply(0, begin, end); });
      continue;
    }
    const int64_t wanted = (kItems * most + parts - 1) / parts, groups = wanted < panels ? wanted : panels;
    parallel_items(parts * groups, [=](int64_t item, int64_t) {
      const int64_t group = item % groups;
      multiply(item / groups, panels * group / groups, panels * (group + 1) / groups);
    });
  }
}

template <class Out>
void gather(const PackedGather& a) {
  const int64_t K = a.K, group = a.group;
  const auto* ids = pointer<int32_t>(a.args->ids);
  Out* out = pointer<Out>(a.args->out);
  const float factor = float(a.args->scale);
  parallel(a.N, grain_of_rows(K * 5), [=](int64_t begin, int64_t end, int64_t) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = ids[i], lane = n % kPanel;
      if (n < 0) {
        std::fill_n(out + i * K, K, Out(0.0f));
        continue;
      }
      const uint8_t* panel = a.w + n / kPanel * a.panel_bytes + lane * 4;
      const auto int8 = [=](int64_t k) { return float(int(panel[k / 4 * kUnitBytes + k % 4]) - 128) * a.w_scales[n]; };
      const auto int4 = [=](int64_t k) {
        const uint8_t* at = panel + k / group * a.group_bytes;
        const int64_t in = k % group;
        const int byte = at[in / 8 * kUnitBytes + in % 4];
        return float((in % 8 < 4 ? byte & 15 : byte >> 4) - 8) *
               float(load_bits<bf16>(at - lane * 2 + group / 2 * kPanel));
      };
      const auto f32 = [=](int64_t k) { return load_bits<float>(panel + k * kUnitBytes); };
      const auto half = [=](int64_t k) { return float(load_bits<bf16>(panel + k / 2 * kUnitBytes + k % 2 * 2)); };
      const auto blocks = [=](int64_t k) {
        const BlockLayout layout(a.format);
        const BlockFormat& f = layout.format;
        const uint8_t* block = panel - lane * 4 + k / f.inputs * a.group_bytes;
        const int64_t in = k % f.inputs, at = in / f.group * kPanel + lane;
        const int code = layout.code(block, lane, in);
        const auto half = [=](int64_t from) {
          return halves(block + from + lane / kLanes * kLanes * 2)[size_t(lane % kLanes)];
        };
        float scale = half(layout.d_at());
        if (f.scales) scale *= float(int8_t(block[layout.scales_at() + at]));
        const float number = scale * float(f.table ? kBlockTable[code] : code - f.offset);
        return f.minimums ? number - half(layout.least_at()) * float(block[layout.minimums_at() + at]) : number;
      };
      const auto value = [=](int64_t k) {
        if (in_blocks(a.format)) return blocks(k);
        switch (a.format) {
          case PackedFormat::f32: return f32(k);
          case PackedFormat::bf16: return half(k);
          case PackedFormat::int8: return int8(k);
          case PackedFormat::int4: return int4(k);
          default: break;
        }
        return 0.0f;
      };
      for (int64_t k = 0; k < K; k += kLanes) {
        alignas(64) float values[kLanes] = {};
        for (int j = 0; j < kLanes && k + j < K; ++j) values[j] = value(k + j);
        store_some(out + i * K + k, load(values) * factor, K - k);
      }
    }
  });
}

}  // namespace

void quantized_products(const QuantizedProducts& products) {
  const QuantizedProduct& one = products.all[0];
  const auto with = [&]<class T, class Out>(T*, Out*) __attribute__((always_inline)) {
    if (in_blocks(one.args->w->format))
      run<T, Out, Form::blocks>(products.all);
    else if (one.group)
      run<T, Out, Form::int4>(products.all);
    else
      run<T, Out, Form::int8>(products.all);
  };
  if (one.args->x.dtype() == DType::f32)
    with((float*)nullptr, (float*)nullptr);
  else if (one.args->y.dtype() == DType::f32)
    with((bf16*)nullptr, (float*)nullptr);
  else
    with((bf16*)nullptr, (bf16*)nullptr);
}

void packed_gather(const PackedGather& a) {
  by_type(a.args->out.dtype(), [&]<class Out>() { gather<Out>(a); });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
