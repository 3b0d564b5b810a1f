// Tiles of attention: 32 queries stand side by side in the lanes of vectors (a panel), so that logits
// [key][query], their softmax and the sums over keys are vertical operations, keys and values are read as
// they lie in memory, and only the few queries are transposed.
#pragma once

#include "lithe/kernels/attention/cpu.h"
#include "lithe/kernels/cpu/bytes.h"
#include "lithe/kernels/int4_rows/cpu_widen.h"

namespace lithe::kernels::cpu::LITHE_ISA {

constexpr float kNone = -__builtin_inff();

// ---- products

enum class Start {
  zero,
  add,
  scale
};  // what becomes of c: overwritten, added to, multiplied by factor[lane] and added to
enum class Order { rows, columns };  // a[m,k] lies at a[m * lda + k] or at a[k * lda + m]

/// One multiply-add per lane.
struct Single {
  static constexpr bool kPairs = false;
  struct Session {};  // what a thread opens before its products: nothing
  [[gnu::always_inline]] static Vec add(Vec c, Vec a, Vec b) { return c + a * b; }
};
/// Words of two bf16.
struct Words {
  static constexpr bool kPairs = true;
#if defined(__AVX512BF16__)
  /// Words of `low` below `high`, rounded.
  [[gnu::always_inline]] static Vec join(Vec low, Vec high) {
    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(high, low);
    alignas(64) static constexpr int16_t kTurn[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                      8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return (Vec)_mm512_permutexvar_epi16(_mm512_load_si512(kTurn), both);
  }
  /// The lanes of `first`, then those of `second`, rounded.
  [[gnu::always_inline]] static Vec follow(Vec first, Vec second) { return (Vec)_mm512_cvtne2ps_pbh(second, first); }
#else
  [[gnu::always_inline]] static Vec join(Vec low, Vec high) {
    return as_floats(reinterpret_cast<IntVec>(__builtin_convertvector(narrow(low), WordVec) |
                                              __builtin_convertvector(narrow(high), WordVec) << 16));
  }
  [[gnu::always_inline]] static Vec follow(Vec first, Vec second) {
    const HalfVec both[2] = {narrow(first), narrow(second)};
    return __builtin_bit_cast(Vec, both);
  }
#endif
};
#if defined(__AVX512BF16__)
/// Two bf16 multiply-adds per lane: a, b hold words; the sum is f32.
struct Pair : Words {
  struct Session {};
  [[gnu::always_inline]] static Vec add(Vec c, Vec a, Vec b) { return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b); }
};
#endif

/// c[m,n] (+)= sum_k a[m,k] b[k,n] for kRows rows and kVectors vectors of columns, held in registers. Each
/// element sums over k in ascending order from c, so that no cut into blocks changes its bits.
template <class Dot, Start kStart, Order kOrder, int kRows, int kVectors>
[[gnu::always_inline]] inline void multiply_block(int64_t depth, const float* a, int64_t lda, const float* b,
                                                  int64_t ldb, float* c, int64_t ldc, const float* factor) {
  Vec sum[kRows][kVectors];
#pragma GCC unroll 16
  for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 16
    for (int n = 0; n < kVectors; ++n) {
      if constexpr (kStart == Start::zero) sum[m][n] = Vec{};
      if constexpr (kStart == Start::add) sum[m][n] = load(c + m * ldc + n * kLanes);
      if constexpr (kStart == Start::scale) sum[m][n] = load(c + m * ldc + n * kLanes) * load(factor + n * kLanes);
    }
  for (int64_t k = 0; k < depth; ++k) {
    Vec row[kVectors];
#pragma GCC unroll 16
    for (int n = 0; n < kVectors; ++n) row[n] = load(b + k * ldb + n * kLanes);
#pragma GCC unroll 16
    for (int m = 0; m < kRows; ++m) {
      float element;
      __builtin_memcpy(&element, a + (kOrder == Order::rows ? m * lda + k : k * lda + m), sizeof element);
      const Vec x = splat(element);
#pragma GCC unroll 16
      for (int n = 0; n < kVectors; ++n) sum[m][n] = Dot::add(sum[m][n], x, row[n]);
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < kRows; ++m)
#pragma GCC unroll 16
    for (int n = 0; n < kVectors; ++n) store(c + m * ldc + n * kLanes, sum[m][n]);
}

template <class Dot, Start kStart, Order kOrder, int kVectors>
[[gnu::always_inline]] inline void multiply_columns(int64_t rows, int64_t depth, const float* a, int64_t lda,
                                                    const float* b, int64_t ldb, float* c, int64_t ldc,
                                                    const float* factor) {
  // As many sums as the registers hold beside the operands, or as hide the time of an addition.
  constexpr int kRows = kLanes == 16 ? 16 / kVectors : kLanes == 8 ? 6 : 4;
  const int64_t step = kOrder == Order::rows ? lda : 1;
  int64_t m = 0;
  for (; m + kRows <= rows; m += kRows)
    multiply_block<Dot, kStart, kOrder, kRows, kVectors>(depth, a + m * step, lda, b, ldb, c + m * ldc, ldc, factor);
  if constexpr (kRows > 8)
    if (m + 8 <= rows) {
      multiply_block<Dot, kStart, kOrder, 8, kVectors>(depth, a + m * step, lda, b, ldb, c + m * ldc, ldc, factor);
      m += 8;
    }
  if constexpr (kRows > 4)
    if (m + 4 <= rows) {
      multiply_block<Dot, kStart, kOrder, 4, kVectors>(depth, a + m * step, lda, b, ldb, c + m * ldc, ldc, factor);
      m += 4;
    }
  if (m + 2 <= rows) {
    multiply_block<Dot, kStart, kOrder, 2, kVectors>(depth, a + m * step, lda, b, ldb, c + m * ldc, ldc, factor);
    m += 2;
  }
  if (m < rows)
    multiply_block<Dot, kStart, kOrder, 1, kVectors>(depth, a + m * step, lda, b, ldb, c + m * ldc, ldc, factor);
}

/// c[rows, cols] (+)= a[rows, depth] b[depth, cols]; cols is a multiple of kLanes.
template <class Dot, Start kStart, Order kOrder>
[[gnu::noinline]] void multiply(int64_t rows, int64_t cols, int64_t depth, const float* a, int64_t lda, const float* b,
                                int64_t ldb, float* c, int64_t ldc, const float* factor = nullptr) {
  int64_t n = 0;
  for (; n + 2 * kLanes <= cols; n += 2 * kLanes)
    multiply_columns<Dot, kStart, kOrder, 2>(rows, depth, a, lda, b + n, ldb, c + n, ldc, factor + n);
  if (n < cols) multiply_columns<Dot, kStart, kOrder, 1>(rows, depth, a, lda, b + n, ldb, c + n, ldc, factor + n);
}

constexpr int kHalf = kPanel / 2;  // queries: those of the first half may see fewer keys

/// Logits [rows][kPanel] of keys a and queries b [depth][kPanel], of which the first half sees `low` keys only.
template <class Dot>
[[gnu::always_inline]] inline void multiply_keys(Dot, int64_t rows, int64_t low, int64_t depth, const float* a,
                                                 int64_t lda, const float* b, float* logits) {
  multiply<Dot, Start::zero, Order::rows>(low, kPanel, depth, a, lda, b, kPanel, logits, kPanel);
  if (low < rows)
    multiply<Dot, Start::zero, Order::rows>(rows - low, kHalf, depth, a + low * lda, lda, b + kHalf, kPanel,
                                            logits + low * kPanel + kHalf, kPanel);
}

/// To sums [cols][kPanel], which are added to or scaled, the sum over keys of their rows a (lay_over_keys) by weights
/// [depth][kPanel], of which the first half has `low` only. What it has not is lost.
template <Start kStart, class Dot>
[[gnu::always_inline]] inline void sum_over_keys(Dot, int64_t cols, int64_t low, int64_t depth, const float* a,
                                                 int64_t lda, float* weights, float* sums,
                                                 const float* factor = nullptr) {
  multiply<Dot, kStart, Order::columns>(cols, kPanel, low, a, lda, weights, kPanel, sums, kPanel, factor);
  if (low < depth)
    multiply<Dot, Start::add, Order::columns>(cols, kHalf, depth - low, a + low * lda, lda,
                                              weights + low * kPanel + kHalf, kPanel, sums + kHalf, kPanel);
}

/// To sums [rows][cols] of keys the sum over queries of weights [rows][kPanel] (two to a word when paired) by lines
/// [kPanel][cols] (likewise); the first half of the queries sees `low` keys only, and has weights of 0 for the others.
template <class Dot>
[[gnu::always_inline]] inline void sum_over_queries(Dot, int64_t rows, int64_t low, int64_t cols, float* weights,
                                                    const float* lines, float* sums) {
  constexpr int64_t kWords = Dot::kPairs ? kPanel / 2 : kPanel, kSkipped = kWords / 2;
  multiply<Dot, Start::add, Order::rows>(low, cols, kWords, weights, kWords, lines, cols, sums, cols);
  if (low < rows)
    multiply<Dot, Start::add, Order::rows>(rows - low, cols, kSkipped, weights + low * kWords + kSkipped, kWords,
                                           lines + kSkipped * cols, cols, sums + low * cols, cols);
}

// ---- moving rows

template <int... kIndex>
struct Indices {};
template <int kCount, int... kIndex>
struct IndicesTo : IndicesTo<kCount - 1, kCount - 1, kIndex...> {};
template <int... kIndex>
struct IndicesTo<0, kIndex...> {
  using Type = Indices<kIndex...>;
};
/// Lanes of a and b in turn, starting at lane kFirst of each.
template <int kFirst, int... kIndex>
[[gnu::always_inline]] inline Vec interleave(Vec a, Vec b, Indices<kIndex...>) {
  return __builtin_shufflevector(a, b, (kFirst + kIndex / 2 + kIndex % 2 * kLanes)...);
}

/// r[i][j] becomes r[j][i]: as many perfect shuffles as the logarithm of the size.
[[gnu::always_inline]] inline void transpose(Vec (&r)[kLanes]) {
  using All = typename IndicesTo<kLanes>::Type;
#pragma GCC unroll 4
  for (int stage = kLanes; stage > 1; stage /= 2) {
    Vec next[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes / 2; ++i) {
      next[2 * i] = interleave<0>(r[i], r[i + kLanes / 2], All{});
      next[2 * i + 1] = interleave<kLanes / 2>(r[i], r[i + kLanes / 2], All{});
    }
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) r[i] = next[i];
  }
}

/// A square of numbers, transposed: to[c * kPanel + i] = from[i * stride + c]. Rows at and beyond `rows`
/// count as 0.
template <class T, class Lanes>
[[gnu::always_inline]] inline void pack_square(const T* from, int64_t stride, int64_t rows, Lanes lanes, float* to) {
  Vec r[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) r[i] = i < rows ? load(from + i * stride, lanes) : Vec{};
  transpose(r);
  int cols = kLanes;
  if constexpr (std::is_same_v<Lanes, First>) cols = lanes.count;
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i)
    if (i < cols) store(to + i * kPanel, r[i]);
}

/// to[c * kPanel + i] = from[i * stride + c] for `rows` <= kPanel rows, 0 for the rows up to kPanel.
template <class T>
[[gnu::noinline]] void pack_panel(const T* from, int64_t stride, int64_t rows, int64_t cols, float* to) {
  for (int64_t lane = 0; lane < kPanel; lane += kLanes, from += kLanes * stride, to += kLanes)
    if (lane + kLanes <= rows)
      each(
          cols, [&](int64_t c, auto lanes)
                    __attribute__((always_inline)) { pack_square(from + c, stride, kLanes, lanes, to + c * kPanel); });
    else
      each(
          cols, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
            pack_square(from + c, stride, rows - lane, lanes, to + c * kPanel);
          });
}

/// The way back, with a factor for each row: to[i * stride + c] = factor[i] from[c * kPanel + i].
template <class T, class Lanes>
[[gnu::always_inline]] inline void unpack_square(const float* from, Vec factor, int64_t rows, Lanes lanes, T* to,
                                                 int64_t stride) {
  Vec r[kLanes];
  int cols = kLanes;
  if constexpr (std::is_same_v<Lanes, First>) cols = lanes.count;
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i) r[i] = i < cols ? load(from + i * kPanel) * factor : Vec{};
  transpose(r);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; ++i)
    if (i < rows) store(to + i * stride, r[i], lanes);
}

template <class T>
[[gnu::noinline]] void unpack_panel(const float* from, const float* factor, int64_t rows, int64_t cols, T* to,
                                    int64_t stride) {
  for (int64_t lane = 0; lane < rows; lane += kLanes, from += kLanes, to += kLanes * stride) {
    const Vec f = load(factor + lane);
    if (lane + kLanes <= rows)
      each(
          cols, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
            unpack_square(from + c * kPanel, f, kLanes, lanes, to + c, stride);
          });
    else
      each(
          cols, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
            unpack_square(from + c * kPanel, f, rows - lane, lanes, to + c, stride);
          });
  }
}

/// A row of `cols` numbers where it is copied to: a whole number of cache lines, zeros behind the numbers.
[[gnu::always_inline]] inline int64_t row_of(int64_t cols) { return (cols + 15) / 16 * 16; }

/// Rows as f32, at row_of(cols).
template <class T>
[[gnu::noinline]] void widen_rows(const T* from, int64_t stride, int64_t rows, int64_t cols, float* to) {
  const int64_t row = row_of(cols);
  for (int64_t i = 0; i < rows; ++i, from += stride, to += row) {
    store(to + row - kLanes, Vec{});
    each(
        cols, [&](int64_t c, auto lanes) __attribute__((always_inline)) { store(to + c, load(from + c, lanes)); });
  }
}

/// Rows of 8-bit integers as numbers, with the scale of each row at scales[i * scale_stride].
[[gnu::noinline, maybe_unused]] static void widen_rows(const int8_t* from, int64_t stride, const float* scales,
                                                       int64_t scale_stride, int64_t rows, int64_t cols, float* to) {
  const int64_t row = row_of(cols);
  for (int64_t i = 0; i < rows; ++i, from += stride, to += row) {
    store(to + row - kLanes, Vec{});
    each(
        cols, [&](int64_t c, auto lanes)
                  __attribute__((always_inline)) { store(to + c, load(from + c, lanes) * scales[i * scale_stride]); });
  }
}

/// The way back: to[i * stride + c] = from[i * row_of(cols) + c].
template <class T>
[[gnu::noinline]] void narrow_rows(const float* from, int64_t rows, int64_t cols, T* to, int64_t stride) {
  const int64_t row = row_of(cols);
  for (int64_t i = 0; i < rows; ++i, from += row, to += stride)
    each(
        cols, [&](int64_t c, auto lanes) __attribute__((always_inline)) { store(to + c, load(from + c), lanes); });
}

/// Rows of bf16 two by two, at row_of(cols): word [i/2][c] holds from[i][c] below from[i+1][c]; a missing
/// last row is 0.
[[gnu::noinline, maybe_unused]] static void pair_rows(const bf16* from, int64_t stride, int64_t rows, int64_t cols,
                                                      float* to) {
  const int64_t row = row_of(cols);
  for (int64_t i = 0; i < rows; i += 2, from += 2 * stride, to += row) {
    store(to + row - kLanes, Vec{});
    each(
        cols, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
          // The bits of widened bf16 are the number shifted up by 16.
          const IntVec low = as_ints(load(from + c, lanes)),
                       high = i + 1 < rows ? as_ints(load(from + stride + c, lanes)) : IntVec{};
          store(to + c, as_floats(high | reinterpret_cast<IntVec>(reinterpret_cast<WordVec>(low) >> 16)));
        });
  }
}

/// Rows of keys or values as sum_over_keys reads them: how far apart they lie, of a tile of `keys` keys; copied;
/// those of key `skip`, an even one when paired.
template <class Dot>
[[gnu::always_inline]] inline int64_t stride_over_keys(Dot, [[maybe_unused]] int64_t keys, int64_t cols) {
  return row_of(cols);
}
template <class Dot, class T>
[[gnu::always_inline]] inline void lay_over_keys(Dot, const T* from, int64_t stride, int64_t rows, int64_t cols,
                                                 [[maybe_unused]] int64_t keys, float* to) {
  if constexpr (Dot::kPairs)
    pair_rows(from, stride, rows, cols, to);
  else
    widen_rows(from, stride, rows, cols, to);
}
template <class Dot>
[[gnu::always_inline]] inline const float* over_keys(Dot, const float* a, int64_t stride, int64_t skip) {
  return a + skip / (Dot::kPairs ? 2 : 1) * stride;
}

// ---- pages

/// Row `key` of keys or values with `cols` numbers a row; those up to the end of its page follow.
template <class T>
[[gnu::always_inline]] inline const T* row_at(const AttentionRows& rows, int64_t key, int64_t cols) {
  const int64_t page = key / rows.page_rows;
  return static_cast<const T*>(rows.pages[page]) + (key - page * rows.page_rows) * cols;
}
/// The scales of that row, `cols` of them; null where rows have none.
[[gnu::always_inline]] inline const float* scale_at(const AttentionRows& rows, int64_t key, int64_t cols) {
  const int64_t page = key / rows.page_rows;
  return rows.scales ? rows.scales[page] + (key - page * rows.page_rows) * cols : nullptr;
}

/// Rows of one head in 4 bits as f32, at row_of(size), from `key` on, which lie in one page.
[[gnu::noinline, maybe_unused]] static void widen_int4_rows(const AttentionRows& from, int64_t key, int64_t rows,
                                                            int64_t heads, int64_t head, int64_t size, float* to) {
  const Int4Rows of{heads, size};
  const uint8_t* codes = row_at<uint8_t>(from, key, of.bytes()) + head * of.head_bytes();
  const float* scales = scale_at(from, key, of.scales() / 2) + head * of.head_groups();
  const int64_t row = row_of(size);
  for (int64_t i = 0; i < rows; ++i, codes += of.bytes(), scales += of.scales() / 2, to += row) {
    store(to + row - kLanes, Vec{});
    widen_int4_head(codes, reinterpret_cast<const bf16*>(scales), size, to);
  }
}

/// Rows that are asked for ahead of their use, a few at a time, so that they arrive while products run.
struct Stream {
  const char* row = nullptr;
  int64_t stride = 0, bytes = 0, rows = 0;  // bytes: from one row to the next, of each

  template <bool kWrite = false>
  [[gnu::always_inline]] void ask(int64_t count) {
    for (; count > 0 && rows > 0; --count, --rows, row += stride)
      for (int64_t byte = 0; byte < bytes; byte += 64) __builtin_prefetch(row + byte, kWrite, 3);
  }
};

// ---- softmax, with powers of two: e^x = 2^(x log2 e), and the factor goes into the scale

constexpr float kLog2E = 1.44269504f, kLn2 = 0.693147181f;

/// 2^x for x <= 0 and a little above: within 2 units in the last place, exact at 0; 0 for what is too small for the
/// type, NaN stays. x = n + r with 0 <= r <= 1, and 2^r is fitted to a relative error of 2e-9.
[[gnu::always_inline]] inline Vec power(Vec x) {
#if defined(__AVX512F__)
  // Of -infinity the remainder is 0 and the scaled number 0.
  const Vec r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#else
  x = max(splat(-126.5f), x);          // in this order of operands a NaN passes through
  const Vec magic = splat(0x1.8p23f);  // adding it rounds to an integer
  const Vec n = (x - 0.5f + magic) - magic, r = x - n;
#endif
  Vec p = splat(2.16129192e-4f);
  p = p * r + 1.24678458e-3f;
  p = p * r + 9.67545155e-3f;
  p = p * r + 5.54852821e-2f;
  p = p * r + 0.240229309f;
  p = p * r + 0.693147063f;
  p = p * r + 1.0f;
#if defined(__AVX512F__)
  return _mm512_scalef_ps(p, x);  // by 2^floor(x)
#else
  // The exponent field of 2^-127 is 0: the number becomes 0 instead of a denormal.
  return p * as_floats((__builtin_convertvector(n, IntVec) + 127) << 23);
#endif
}

/// Numbers of a tile, [rows][stride]; null: none.
struct Numbers {
  const float* at = nullptr;
  int64_t stride = 0;
  [[gnu::always_inline]] Numbers behind(int64_t lanes) const { return {at ? at + lanes : nullptr, stride}; }
};

/// From logits [rows][stride] to weights 2^(scale logit - maximum), in place, for `lanes` columns.
/// `maximum` (of scale logit) and `sum` run over the tiles; `factor` is what earlier sums must be multiplied with. With
/// Pair the weights become bf16, two rows in a row of words. kMultiplied: the weights, not their sum, times
/// `multipliers`.
template <class Dot, bool kMultiplied>
[[gnu::noinline]] void soften(float* logits, int64_t stride, int64_t lanes, int64_t rows, float scale, float* maximum,
                              float* sum, float* factor, [[maybe_unused]] Numbers multipliers) {
  for (int64_t lane = 0; lane < lanes; lane += kLanes) {
    float* in = logits + lane;
    const Vec old = load(maximum + lane), none = splat(kNone);
    Vec most[4] = {none, none, none, none};
    int64_t j = 0;
    for (; j + 4 <= rows; j += 4)
#pragma GCC unroll 4
      for (int u = 0; u < 4; ++u) most[u] = max(most[u], load(in + (j + u) * stride));
    for (; j < rows; ++j) most[0] = max(most[0], load(in + j * stride));
    const Vec now = max(old, max(max(most[0], most[1]), max(most[2], most[3])) * scale);
    // A row that saw nothing yet keeps weights of 0 instead of 2^(-inf + inf).
    const Vec base = now == kNone ? Vec{} : now;
    const Vec shrink = power(old - base);
    Vec total[2] = {load(sum + lane) * shrink, Vec{}};
    for (j = 0; j + 2 <= rows; j += 2) {
      Vec p0 = power(load(in + j * stride) * scale - base), p1 = power(load(in + (j + 1) * stride) * scale - base);
      total[0] += p0;
      total[1] += p1;
      if constexpr (kMultiplied) {
        p0 *= load(multipliers.at + lane + j * multipliers.stride);
        p1 *= load(multipliers.at + lane + (j + 1) * multipliers.stride);
      }
      if constexpr (Dot::kPairs) {
        store(in + j / 2 * stride, Dot::join(p0, p1));
      } else {
        store(in + j * stride, p0);
        store(in + (j + 1) * stride, p1);
      }
    }
    if (j < rows) {
      Vec p = power(load(in + j * stride) * scale - base);
      total[0] += p;
      if constexpr (kMultiplied) p *= load(multipliers.at + lane + j * multipliers.stride);
      if constexpr (Dot::kPairs)
        store(in + j / 2 * stride, Dot::join(p, Vec{}));
      else
        store(in + j * stride, p);
    }
    store(maximum + lane, now);
    store(sum + lane, total[0] + total[1]);
    store(factor + lane, shrink);
  }
}
template <class Dot>
[[gnu::always_inline]] inline void soften(float* logits, int64_t stride, int64_t lanes, int64_t rows, float scale,
                                          float* maximum, float* sum, float* factor, Numbers multipliers) {
  if (multipliers.at)
    soften<Dot, true>(logits, stride, lanes, rows, scale, maximum, sum, factor, multipliers);
  else
    soften<Dot, false>(logits, stride, lanes, rows, scale, maximum, sum, factor, multipliers);
}

// ---- who sees whom

struct Range {
  int64_t begin, end;
};

[[gnu::always_inline]] inline int64_t clamp_to(int64_t x, int64_t most) { return x < 0 ? 0 : x > most ? most : x; }

/// The keys that query i of the span sees by a mask. Both ends grow with i.
[[gnu::always_inline]] inline Range visible_keys(const AttentionMask& mask, const AttentionSpan& span, int64_t i) {
  const int64_t position = i + span.key_rows - span.query_rows, window = mask.window;
  const int64_t begin = window > 0 ? position - window + 1 : 0;
  const int64_t end = mask.causal ? position + 1 : window > 0 ? position + window : span.key_rows;
  return {clamp_to(begin, span.key_rows), clamp_to(end, span.key_rows)};
}

[[gnu::always_inline]] inline const AttentionMask& mask_of(const AttentionCall& call, int64_t head) {
  return call.head_masks ? call.head_masks[head] : call.mask;
}

/// Up to kPanel queries of a span and head: what the first, the last of the first half, and the last of them see.
struct Panel {
  const AttentionMask& mask;
  int64_t first, rows;
  Range of_first, of_low, of_last;

  [[gnu::always_inline]] Panel(const AttentionCall& call, const AttentionSpan& span, int64_t head, int64_t from,
                               int64_t to)
      : mask(mask_of(call, head)),
        first(from),
        rows(to - from < kPanel ? to - from : kPanel),
        of_first(visible_keys(mask, span, from)),
        of_low(visible_keys(mask, span, from + (rows < kHalf ? rows : kHalf) - 1)),
        of_last(visible_keys(mask, span, from + rows - 1)) {}
  /// All keys that some query sees.
  [[gnu::always_inline]] Range seen() const { return {of_first.begin, of_last.end}; }
  [[gnu::always_inline]] bool all_see(Range keys) const {
    return keys.begin >= of_last.begin && keys.end <= of_first.end;
  }
  /// How many of the keys the first half sees at most; an even number, or all.
  [[gnu::always_inline]] int64_t low(Range keys) const {
    const int64_t all = keys.end - keys.begin, seen = clamp_to(of_low.end - keys.begin, all), even = seen + (seen & 1);
    return even < all ? even : all;
  }
};

/// Logits [keys][kPanel] of keys that a query does not see become -infinity. Lanes beyond the panel's rows
/// see what its last row sees.
[[gnu::noinline, maybe_unused]] static void hide(const AttentionSpan& span, const Panel& panel, Range keys,
                                                 float* logits) {
  for (int lane = 0; lane < kPanel; lane += kLanes) {
    IntVec begin, end;
    for (int i = 0; i < kLanes; ++i) {
      const int64_t row = lane + i < panel.rows ? lane + i : panel.rows - 1;
      const Range seen = visible_keys(panel.mask, span, panel.first + row);
      begin[i] = int32_t(seen.begin - keys.begin);
      end[i] = int32_t(seen.end - keys.begin);
    }
    for (int32_t j = 0; j < keys.end - keys.begin; ++j) {
      float* row = logits + j * kPanel + lane;
      const IntVec key = IntVec{} + j;
      store(row, (key >= begin) & (key < end) ? load(row) : splat(kNone));
    }
  }
}

// ---- how the numbers of q, k and v enter the products

struct Floats {  // f32 as it lies
  using T = float;
  using Dot = Single;
  static constexpr bool kDecodes = true;
};
template <class Queries>
struct Widened {  // other types, made f32 a tile at a time; keys and values as AttentionCall::key_dtype says
  using T = Queries;
  using Dot = Single;
  static constexpr bool kDecodes = true;
};
#if defined(__AVX512BF16__)
struct Paired {  // bf16 two by two; weights and their gradients are rounded to bf16 for their products
  using T = bf16;
  using Dot = Pair;
  static constexpr bool kDecodes = true;
};
#endif

// ---- decoding (attention_decode.cpp)

/// Runs a decode task of a part. What it leaves unfinished, because other parts have splits of the same
/// span, attention_decode_finish completes after all parts are done.
void attention_decode(const AttentionCall& call, const AttentionTask& task, float* space);
void attention_decode_finish(const AttentionCall& call);

}  // namespace lithe::kernels::cpu::LITHE_ISA
