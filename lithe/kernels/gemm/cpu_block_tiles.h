// What cpu_blocked.cpp multiplies with: tiles of c whose sums stay in registers. A panel of b stays in the first cache,
// and tiles of a pass.
#pragma once

#include "lithe/kernels/gemm/cpu.h"
#include "lithe/kernels/gemm/cpu_vectors.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

// A tile of c is kRows x kPanel; its sums fill the registers, of which a few are left for operands. A panel has
// kStayUnits units. kCopies: a is copied, tile by tile as [unit, kRows], because one stream is read with the fewest
// instructions: where a neighbour uses the same core, their number counts. Rows of a pass where they lie if not.
#if defined(__AVX512F__) || defined(__aarch64__)  // 32 registers
constexpr bool kCopies = true;
constexpr int kRows = 6, kVectors = 4;
constexpr int64_t kStayUnits = 96, kStayRows = 264;
#else
constexpr bool kCopies = false;
constexpr int kRows = 3, kVectors = 4;
constexpr int64_t kStayUnits = 192, kStayRows = 96;
#endif
constexpr int kPanel = kVectors * kLanes;
constexpr int64_t kStepOfB = kPanel > kPanelWords ? 64 : 4 * kPanelWords;  // bytes, for two lines of the next panel
// Between products, what comes next gets a look every kLook units.
constexpr int kLook = 16;
constexpr int64_t kTilesOfLine = kLook;  // of a transposed: kStayUnits units at as many as a tile has looks
// Words from row to row, or from tile to tile, of a copied a. In tiles whole vectors are written, and up to 8 words of
// the unit after the last.
constexpr int64_t kStayStride = kStayUnits + 8;
constexpr int64_t tile_words(int64_t units) { return (units + kLanes - 1) / kLanes * kLanes * kRows + 8; }
static_assert((kCopies ? kStayRows / kRows * tile_words(kStayUnits) : kStayRows * kStayStride) <= kWordsOfA &&
              kStayUnits >= kLeastUnits && kStayRows <= kMostStayRows && kStayUnits % kLook == 0);
static_assert(kPanel == 2 * kPanelWords || kPanelWords % kPanel == 0);

int64_t upto(int64_t x, int64_t most) { return x < most ? x : most; }

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

// A tile of a: unit u of row r at words[u * kRows + r], or, where it lies, at words[r * stride + u].
struct Rows {
  const uint32_t* words;
  int64_t stride;
};

// A panel of b: kPanelWords words of each unit; the second half of the columns lies `half` words behind the first.
struct Panel {
  const uint32_t* words;
  int64_t half;
};

// Cache lines that will be needed: one at each look, `stride` bytes apart. All at once they would stall the loads of
// the products.
struct Ahead {
  const char* p;
  int64_t stride;
  int64_t of_tile, back;  // from those of a tile to those of the next, and to those after kTilesOfLine
};

// A tile, to = from + a b, and what is asked for between products: the next tile of c, a row at a look, lines of the
// next panel of b, and of the rows of a that are copied next.
struct Tile {
  Rows a;
  Panel b;
  int64_t units;
  int64_t lines_of_b;  // pairs of them at a look
  Ahead next_a, next_b, next_c;
  Sums<const float*> from;
  Sums<float*> to;
};

// A unit of R rows by V vectors of columns.
template <class Source, int R, int V>
[[gnu::always_inline]] inline void unit(Vec (&sum)[R][V], Rows a, const uint32_t* b, const uint32_t* second) {
  const auto of_a = [&](int r) { return repeat(a.words[kCopies ? r : r * a.stride]); };
  const auto of_b = [&](int v) {
    return load_bits<WordVec>(v < kVectors / 2 ? b + v * kLanes : second + (v - kVectors / 2) * kLanes);
  };
  // The operands of one side are held, where few registers are left the fewer ones, and meet those of the other side.
  constexpr int kHeld = kCopies ? V : R, kOthers = kCopies ? R : V;
  WordVec held[kHeld];
#pragma GCC unroll 4
  for (int i = 0; i < kHeld; ++i) held[i] = kCopies ? of_b(i) : of_a(i);
#pragma GCC unroll 6
  for (int k = 0; k < kOthers; ++k) {
    const WordVec other = kCopies ? of_a(k) : of_b(k);
#pragma GCC unroll 4
    for (int i = 0; i < kHeld; ++i) {
      Vec& s = sum[kCopies ? k : i][kCopies ? i : k];
      s = Source::multiply_add(s, kCopies ? other : held[i], kCopies ? held[i] : other);
    }
    if (kCopies) asm("" ::"X"(other));
  }
  // Operands outlive products: compilers make sums in the registers of dead ones, and move them back.
#pragma GCC unroll 4
  for (int i = 0; i < kHeld; ++i)
    if (kCopies) asm("" ::"X"(held[i]));
}

template <class Source, int R, int V>
[[gnu::noinline]] void tile(Tile& t) {
  Vec sum[R][V];
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[r][v] = load(t.from.p + r * t.from.stride + v * kLanes);
  constexpr int kUnrolled = 4, kUnitOfA = kCopies ? kRows : 1;
  Rows a = t.a;
  const uint32_t *b = t.b.words, *second = b + t.b.half;
  const char *next_a = t.next_a.p, *next_b = t.next_b.p, *c = t.next_c.p;
  int64_t u = t.units;
  const auto next = [&] { a.words += kUnitOfA, b += kPanelWords, second += kPanelWords; };
  for (; u >= kLook; u -= kLook) {
#pragma GCC unroll 4
    for (int v = 0; v < V * kLanes; v += 16) __builtin_prefetch(c + v * 4, 1, 3);
    __builtin_prefetch(next_a, 0, 2);
    c += t.next_c.stride, next_a += t.next_a.stride;
    for (int64_t i = t.lines_of_b; i > 0; --i, next_b += kStepOfB) {
      __builtin_prefetch(next_b, 0, 2);
      __builtin_prefetch(next_b + t.b.half * 4, 0, 2);
    }
    for (int i = 0; i < kLook; i += kUnrolled) {
      // One turn of this loop at a time: of more the compiler copies sums from register to register.
      asm volatile("" : "+r"(a.words));
      if (kCopies)
#pragma GCC unroll 2
        for (int k = 0; k < kUnrolled * kRows; k += 16) __builtin_prefetch(a.words + kLook * kRows + k, 0, 3);
#pragma GCC unroll 4
      for (int k = 0; k < kUnrolled; ++k, next()) unit<Source>(sum, a, b, second);
    }
  }
  t.next_b.p = next_b;
  for (; u > 0; --u, next()) unit<Source>(sum, a, b, second);
#pragma GCC unroll 6
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) store(t.to.p + r * t.to.stride + v * kLanes, sum[r][v]);
}

template <class Source, int V, int R = kRows>
[[gnu::always_inline]] inline void tile_of(int64_t rows, Tile& t) {
  if (rows == R) return tile<Source, R, V>(t);
  if constexpr (R > 1) tile_of<Source, V, R - 1>(rows, t);
}

// kLanes units of the rows of a tile, r[row], as [unit, kRows].
[[gnu::always_inline]] inline void store_by_unit(const WordVec (&r)[kRows], uint32_t* to) {
#ifdef __AVX512F__
  static_assert(kRows == 6 && kLanes == 16);
  typedef uint64_t Pairs __attribute__((vector_size(64)));  // of two rows of a unit
  constexpr WordVec low{0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
#pragma GCC unroll 2
  for (uint32_t half = 0; half < 2; ++half, to += 8 * kRows) {
    const auto pairs = [&](int i) { return (Pairs)shuffled(r[i], r[i + 1], low + 8 * half); };
    const Pairs a = pairs(0), b = pairs(2), c = pairs(4);
    const auto put = [&](int at, const Pairs& of_ab, const Pairs& of_abc) {
      store_bits(to + at, (WordVec)shuffled(shuffled(a, b, of_ab), c, of_abc));
    };
    put(0, Pairs{0, 8, 0, 1, 9, 0, 2, 10}, Pairs{0, 1, 8, 3, 4, 9, 6, 7});
    put(16, Pairs{0, 3, 11, 0, 4, 12, 0, 5}, Pairs{10, 1, 2, 11, 4, 5, 12, 7});
    put(32, Pairs{13, 0, 6, 14, 0, 7, 15, 0}, Pairs{0, 13, 2, 3, 14, 5, 6, 15});
  }
#else
  for (int u = 0; u < kLanes; ++u)
    for (int i = 0; i < kRows; ++i) to[u * kRows + i] = r[i][u];
#endif
}

}  // namespace
}  // namespace lithe::kernels::cpu::LITHE_ISA
