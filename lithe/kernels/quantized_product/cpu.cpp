// Products with integer weights. A panel of 32 outputs meets a few rows at a time, all inputs in one go, sums in
// registers: with one row the weights stream from memory, with many the integer arithmetic is the bound. Integers sum
// exactly, so blocks of rows of any size give a row the same bits.
#include "lithe/kernels/quantized_product/cpu.h"

#include <cstring>

#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/quantized_product/cpu_rows.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

constexpr int kPanel = int(PackedMatrix::kPanel), kUnitBytes = kPanel * 4;
constexpr int kVectors = 2, kTile = kVectors * kLanes;
static_assert(kPanel % kTile == 0);
constexpr int64_t kAhead = 2048;  // bytes asked for ahead, beyond the end of a page
// Rows of a block: their sums, the weights and a word of a row fill the registers.
#if defined(__AVX512VNNI__)
constexpr int kRows8 = 14, kRows4 = 6;
#elif defined(__AVX512F__)
constexpr int kRows8 = 10, kRows4 = 4;
#else
constexpr int kRows8 = 3, kRows4 = 2;
#endif

// sum + the four products of unsigned bytes of w with signed bytes of x, in every lane, modulo 2^32.
[[gnu::always_inline]] inline IntVec dot(IntVec sum, WordVec w, WordVec x) {
#if defined(__AVX512VNNI__)
  return (IntVec)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)w, (__m512i)x);
#elif defined(__AVX512F__)
  // Bytes as 16-bit numbers, even and odd: products of pairs of bytes would saturate.
  const __m512i mask = _mm512_set1_epi32(0x00ff00ff), wide = (__m512i)w, row = (__m512i)x;
  const __m512i even = _mm512_madd_epi16(_mm512_and_si512(wide, mask), _mm512_srai_epi16(_mm512_slli_epi16(row, 8), 8));
  const __m512i odd = _mm512_madd_epi16(_mm512_srli_epi16(wide, 8), _mm512_srai_epi16(row, 8));
  return (IntVec)((WordVec)sum + (WordVec)even + (WordVec)odd);
#elif defined(__AVX2__)
  const __m256i mask = _mm256_set1_epi32(0x00ff00ff), wide = (__m256i)w, row = (__m256i)x;
  const __m256i even = _mm256_madd_epi16(_mm256_and_si256(wide, mask), _mm256_srai_epi16(_mm256_slli_epi16(row, 8), 8));
  const __m256i odd = _mm256_madd_epi16(_mm256_srli_epi16(wide, 8), _mm256_srai_epi16(row, 8));
  return (IntVec)((WordVec)sum + (WordVec)even + (WordVec)odd);
#else
  WordVec all = (WordVec)sum;
  for (int j = 0; j < 4; ++j) all += (WordVec)((IntVec)(w >> (8 * j) & 255) * ((IntVec)(x << (24 - 8 * j)) >> 24));
  return (IntVec)all;
#endif
}

// ---- rows to integers

struct Rows {
  uint32_t* words;  // block of R rows from m at words + m * units: [unit][R]
  int32_t* sums;    // likewise, [group][R]
  float* steps;     // [M]
};

Rows rows_in(const QuantizedProduct& p) {
  auto* words = static_cast<uint32_t*>(p.workspace);
  auto* sums = reinterpret_cast<int32_t*>(words + p.M * p.units);
  return {words, sums, reinterpret_cast<float*>(sums + p.M * p.groups)};
}

// Row m, one of the R rows of the block that begins at `first`.
template <class T>
void quantize_row(const QuantizedProduct& p, const Rows& to, int64_t m, int64_t first, int64_t R) {
  const T* x = pointer<T>(p.args->x) + m * p.K;
  const RowStep step = step_of(x, p.K);
  to.steps[m] = step.size;
  uint32_t* words = to.words + first * p.units + (m - first);
  int32_t* sums = to.sums + first * p.groups + (m - first);
  const int64_t group = p.group ? p.group : p.units * 4;
  for (int64_t g = 0; g < p.groups; ++g) {
    IntVec sum{};
    for (int64_t k = g * group; k < (g + 1) * group; k += kLanes) {
      const IntVec q = rounded(x, p.K, k, step);
      sum += q;
      const ByteVec bytes = __builtin_convertvector(q, ByteVec);
      uint32_t four[kLanes / 4];
      std::memcpy(four, &bytes, sizeof four);
      for (int i = 0; i < kLanes / 4 && k / 4 + i < p.units; ++i) words[(k / 4 + i) * R] = four[i];
    }
    sums[g * R] = step.zero ? 0 : total_of(sum);
  }
}

// ---- tiles: R rows x kTile outputs; with one row, of S panels: two streams are read faster than one

template <int R>
struct Tile {
  Vec sum[R][kVectors];
};

// Weights that are read at the same time, `apart` bytes from each other.
struct Streams {
  const uint8_t* w;
  int64_t apart;
};

// sum = what the integers sum to, as f32; stream by stream.
template <int R, int S>
[[gnu::always_inline]] inline void tile_int8(const QuantizedProduct& p, const uint32_t* x, const int32_t* sums,
                                             Streams w, Tile<R * S>& out) {
  // Few rows: more sums at once, because each waits for its last.
  constexpr int kChains = R == 1 ? 4 / S : R <= 3 ? 2 : 1;
  IntVec sum[kChains][R * S][kVectors];
#pragma GCC unroll 4
  for (int c = 0; c < kChains; ++c)
#pragma GCC unroll 16
    for (int r = 0; r < R * S; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v)  // modulo 2^32: what the products add brings the sum back
        sum[c][r][v] = c ? IntVec{} : IntVec{} + int32_t(0u - 128u * uint32_t(sums[r % R]));
  const auto step = [&](int64_t u, int c) __attribute__((always_inline)) {
#pragma GCC unroll 2
    for (int s = 0; s < S; ++s) {
      WordVec b[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        const uint8_t* from = w.w + s * w.apart + u * kUnitBytes + v * kLanes * 4;
        __builtin_prefetch(from + kAhead);
        b[v] = load_bits<WordVec>(from);
      }
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
        const WordVec a = repeat(x[u * R + r]);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sum[c][s * R + r][v] = dot(sum[c][s * R + r][v], b[v], a);
      }
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

// sum = the groups' sums times their scales.
template <int R, int S>
[[gnu::always_inline]] inline void tile_int4(const QuantizedProduct& p, const uint32_t* x, const int32_t* sums,
                                             Streams w, int64_t column, Tile<R * S>& out) {
  Vec total[R * S][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < R * S; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) total[r][v] = Vec{};
  const int64_t pairs = p.group / 8;
  for (int64_t g = 0; g < p.groups; ++g, w.w += p.group_bytes, sums += R) {
    IntVec sum[R * S][kVectors];
#pragma GCC unroll 16
    for (int r = 0; r < R * S; ++r)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) sum[r][v] = IntVec{} - 8 * sums[r % R];
    for (int64_t pair = 0; pair < pairs; ++pair, x += 2 * R)
#pragma GCC unroll 2
      for (int s = 0; s < S; ++s) {
        WordVec low[kVectors], high[kVectors];
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          const uint8_t* from = w.w + s * w.apart + pair * kUnitBytes + (column + v * kLanes) * 4;
          __builtin_prefetch(from + kAhead);
          const WordVec b = load_bits<WordVec>(from);
          low[v] = b & 0x0f0f0f0f;
          high[v] = b >> 4 & 0x0f0f0f0f;
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r) {
          const WordVec a = repeat(x[r]), c = repeat(x[R + r]);
#pragma GCC unroll 2
          for (int v = 0; v < kVectors; ++v) sum[s * R + r][v] = dot(dot(sum[s * R + r][v], low[v], a), high[v], c);
        }
      }
#pragma GCC unroll 2
    for (int s = 0; s < S; ++s) {
      const auto* scales = reinterpret_cast<const bf16*>(w.w + s * w.apart + pairs * kUnitBytes) + column;
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

// R rows from m, and S panels from `panel`, `apart` panels from each other.
template <class Out, bool int4, int R, int S = 1>
[[gnu::noinline]] void block(const QuantizedProduct& p, const Rows& rows, int64_t m, int64_t panel, int64_t apart = 0) {
  const uint32_t* x = rows.words + m * p.units;
  const int32_t* sums = rows.sums + m * p.groups;
  const Streams w{p.w + panel * p.panel_bytes, apart * p.panel_bytes};
  for (int64_t column = 0; column < kPanel && panel * kPanel + column < p.N; column += kTile) {
    Tile<R * S> tile;
    if constexpr (int4)
      tile_int4<R, S>(p, x, sums, w, column, tile);
    else
      tile_int8<R, S>(p, x, sums, {w.w + column * 4, w.apart}, tile);
    for (int s = 0; s < S; ++s) finish<Out, R>(p, rows, tile, s * R, m, (panel + s * apart) * kPanel + column);
  }
}

template <class Out, bool int4, int R>
void block_of(int64_t count, const QuantizedProduct& p, const Rows& rows, int64_t m, int64_t panel) {
  if (count == R) return block<Out, int4, R>(p, rows, m, panel);
  if constexpr (R > 1) block_of<Out, int4, R - 1>(count, p, rows, m, panel);
}

int64_t panels_of(const QuantizedProduct& p) { return (p.N + kPanel - 1) / kPanel; }

template <class T, class Out, bool int4>
void run(std::span<const QuantizedProduct> products) {
  constexpr int kRows = int4 ? kRows4 : kRows8;
  const QuantizedProduct& one = products[0];  // x, and so M, K and the rounded rows, are the same in all
  const Rows rows = rows_in(one);
  const int64_t M = one.M, blocks = (M + kRows - 1) / kRows;
  const auto round_rows = [=](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = M * b / blocks, last = M * (b + 1) / blocks;
      for (int64_t m = first; m < last; ++m) quantize_row<T>(one, rows, m, first, last - first);
    }
  };
  const auto multiply = [=](const QuantizedProduct& p, int64_t panel, int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = M * b / blocks, last = M * (b + 1) / blocks;
      block_of<Out, int4, kRows>(last - first, p, rows, first, panel);
    }
  };
  // Many rows: a thread multiplies those that it rounded, so that what one writes no other reads. Few are read faster
  // than weights, which each thread then has a part of.
  constexpr int64_t kRowsEach = 512;
  if (M >= kRowsEach * threads())
    return parallel(blocks, 1, [&](int64_t begin, int64_t end, int64_t) {
      round_rows(begin, end);
      for (const QuantizedProduct& p : products)
        for (int64_t panel = 0; panel < panels_of(p); ++panel) multiply(p, panel, begin, end);
    });
  parallel(blocks, (1 << 16) / (one.K * kRows) + 1,
           [&](int64_t begin, int64_t end, int64_t) { round_rows(begin, end); });
  constexpr int64_t kWorth = 1 << 17;  // multiply-adds below which a second thread costs more than it saves
  const int64_t grain = kWorth / (M * one.K * kPanel + 1) + 1;
  if (M == 1) {
    int64_t panels = 0;
    for (const QuantizedProduct& p : products) panels += panels_of(p);
    return parallel_pieces(panels, grain, [&](int64_t begin, int64_t end) {
      for (const QuantizedProduct& p : products) {
        const int64_t count = panels_of(p), last = end < count ? end : count;
        if (begin < last) {
          const int64_t half = (last - begin) / 2;
          for (int64_t i = begin; i < begin + half; ++i) block<Out, int4, 1, 2>(p, rows, 0, i, half);
          if ((last - begin) % 2) block<Out, int4, 1>(p, rows, 0, last - 1);
        }
        begin = begin < count ? 0 : begin - count;
        end -= count;
      }
    });
  }
  for (const QuantizedProduct& p : products)
    parallel_pieces(panels_of(p), grain, [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) multiply(p, panel, 0, blocks);
    });
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
      const auto value = [=](int64_t k) {
        switch (a.format) {
          case PackedFormat::f32: return f32(k);
          case PackedFormat::bf16: return half(k);
          case PackedFormat::int8: return int8(k);
          case PackedFormat::int4: return int4(k);
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
    if (one.group)
      run<T, Out, true>(products.all);
    else
      run<T, Out, false>(products.all);
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
