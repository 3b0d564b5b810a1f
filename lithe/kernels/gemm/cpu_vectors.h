// Vectors for the matrix products. Operands are read as units, words of 32 bits that one multiply-add
// takes: an f32 (bf16 converted), or, with vdpbf16ps, two neighbouring k in bf16.
#pragma once

#include <cstring>

#include "lithe/kernels/cpu/vector.h"
#include "lithe/kernels/gemm/cpu.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

template <class V>
[[gnu::always_inline]] inline V load_bits(const void* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
/// The first `bytes`; the rest 0.
template <class V>
[[gnu::always_inline]] inline V load_bits(const void* p, int64_t bytes) {
  V v{};
  std::memcpy(&v, p, size_t(bytes));
  return v;
}
[[gnu::always_inline]] inline void store_bits(void* p, WordVec v) { std::memcpy(p, &v, sizeof v); }
/// The first `count` words, or all.
template <int count>
[[gnu::always_inline]] inline void store_first(void* p, WordVec v) {
  std::memcpy(p, &v, (count < kLanes ? count : kLanes) * sizeof v[0]);
}
[[gnu::always_inline]] inline Vec floats(WordVec x) { return reinterpret_cast<Vec>(x); }
[[gnu::always_inline]] inline WordVec repeat(uint32_t x) { return WordVec{} + x; }

/// kLanes elements from p, of which `count` exist.
template <class T>
[[gnu::always_inline]] inline Vec load_some(const T* p, int64_t count) {
  return count >= kLanes ? load(p) : load(p, First{int(count)});
}
template <class T>
[[gnu::always_inline]] inline void store_some(T* p, Vec v, int64_t count) {
  if (count >= kLanes)
    store(p, v);
  else
    store(p, v, First{int(count)});
}

/// kLanes values of T as they lie in memory, in words; only the first `count` are touched.
[[gnu::always_inline]] inline WordVec load_words(const float* p, int64_t count) {
  return count >= kLanes ? load_bits<WordVec>(p) : load_bits<WordVec>(p, count * 4);
}
[[gnu::always_inline]] inline WordVec load_words(const bf16* p, int64_t count) {
  return words_of(count >= kLanes ? load_bits<HalfVec>(p) : load_bits<HalfVec>(p, count * 2));
}

// How a matrix of T is read as units. `left` is the number of k that exist from p on.
//   one(p, stride, left)           the unit whose k are `stride` apart
//   along(p, left)                 kLanes units with neighbouring k
//   across(p, stride, left, cols)  one unit of kLanes columns, of which `cols` exist; rows are `stride` apart
struct PlainF32 {
  using T = float;
  static constexpr int kStep = 1;  // k per unit
  [[gnu::always_inline]] static uint32_t one(const T* p, int64_t, int64_t) { return __builtin_bit_cast(uint32_t, *p); }
  [[gnu::always_inline]] static WordVec along(const T* p, int64_t left) { return load_words(p, left); }
  [[gnu::always_inline]] static WordVec across(const T* p, int64_t, int64_t, int64_t cols) {
    return load_words(p, cols);
  }
  [[gnu::always_inline]] static Vec multiply_add(Vec sum, WordVec a, WordVec b) { return sum + floats(a) * floats(b); }
};

#ifdef __AVX512BF16__
struct Bf16 {
  using T = bf16;
  static constexpr int kStep = 2;
  [[gnu::always_inline]] static uint32_t one(const T* p, int64_t stride, int64_t left) {
    return p->bits | (left > 1 ? uint32_t(p[stride].bits) << 16 : 0);
  }
  [[gnu::always_inline]] static WordVec along(const T* p, int64_t left) {
    return left >= 2 * kLanes ? load_bits<WordVec>(p) : load_bits<WordVec>(p, left * 2);
  }
  [[gnu::always_inline]] static WordVec across(const T* p, int64_t stride, int64_t left, int64_t cols) {
    const WordVec first = load_words(p, cols);
    return left > 1 ? first | load_words(p + stride, cols) << 16 : first;
  }
  [[gnu::always_inline]] static Vec multiply_add(Vec sum, WordVec a, WordVec b) {
    return (Vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
  }
};
#else
struct Bf16 {
  using T = bf16;
  static constexpr int kStep = 1;
  [[gnu::always_inline]] static uint32_t one(const T* p, int64_t, int64_t) { return uint32_t(p->bits) << 16; }
  [[gnu::always_inline]] static WordVec along(const T* p, int64_t left) { return load_words(p, left) << 16; }
  [[gnu::always_inline]] static WordVec across(const T* p, int64_t, int64_t, int64_t cols) {
    return load_words(p, cols) << 16;
  }
  [[gnu::always_inline]] static Vec multiply_add(Vec sum, WordVec a, WordVec b) { return sum + floats(a) * floats(b); }
};
#endif

// A packed b in words [panel][kPanelWords]: an f32, or two neighbouring k in bf16, of each column.
constexpr int64_t kPanelWords = PackedMatrix::kPanel;
/// Units a word stands for: the word is one, or holds two.
template <class Source>
constexpr int kWordUnits = int(4 / sizeof(typename Source::T)) / Source::kStep;
template <class Source>
inline int64_t packed_words(int64_t K) {
  constexpr int64_t step = 4 / sizeof(typename Source::T);
  return (K + step - 1) / step;
}
/// Unit i of those in words of kLanes columns.
template <class Source>
[[gnu::always_inline]] inline WordVec unit_of(WordVec w, int64_t i) {
  return kWordUnits<Source> == 1 ? w : i ? w & 0xffff0000u : w << 16;
}

/// A unit of the kLanes columns from p and one of those from p + second, of 2 kLanes that all exist, as its k do.
template <class Source>
[[gnu::always_inline]] inline void across_two(const typename Source::T* p, int64_t stride, int64_t second,
                                              WordVec (&w)[2]) {
#ifdef __AVX512BF16__
  if constexpr (Source::kStep == 2) {
    typedef uint16_t Halves __attribute__((vector_size(64)));
    constexpr Halves low{0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                         8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
    const auto one = load_bits<Halves>(p), other = load_bits<Halves>(p + stride);
    w[0] = (WordVec)shuffled(one, other, low);
    w[1] = (WordVec)shuffled(one, other, low + uint16_t(second));
    return;
  }
#endif
  w[0] = Source::across(p, stride, Source::kStep, kLanes);
  w[1] = Source::across(p + second, stride, Source::kStep, kLanes);
}

/// A unit of 2 kLanes columns, as Source::across; columns beyond `cols` are 0.
template <class Source>
[[gnu::always_inline]] inline void across_panel(const typename Source::T* p, int64_t stride, int64_t left, int64_t cols,
                                                WordVec (&w)[2]) {
  if (left >= Source::kStep && cols >= 2 * kLanes) return across_two<Source>(p, stride, kLanes, w);
  w[0] = Source::across(p, stride, left, cols);
  w[1] = cols > kLanes ? Source::across(p + kLanes, stride, left, cols - kLanes) : WordVec{};
}

/// What the sums of kLanes columns from n of row m start with. Never -0, so that adding a product of 0
/// changes no bit.
template <class Out>
[[gnu::always_inline]] inline Vec first_sum(const Product& p, int64_t m, int64_t n) {
  Vec sum{};
  if (p.bias) sum += load_some(p.bias + n, p.N - n);
  if (p.accumulate) sum += load_some(static_cast<const Out*>(p.c) + m * p.N + n, p.N - n);
  return sum;
}

/// Transposes 16 x 16 words in place: pairs of words, then pairs of pairs, then whole quarters.
template <class V>
[[gnu::always_inline]] inline void transpose_16(V (&r)[16]) {
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    const V a = r[i], b = r[i + 1];
    r[i] = shuffled(a, b, V{0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29});
    r[i + 1] = shuffled(a, b, V{2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31});
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    const V a = r[i], b = r[i + 1], c = r[i + 2], d = r[i + 3];
    constexpr V low{0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29};
    constexpr V high{2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31};
    r[i] = shuffled(a, c, low), r[i + 1] = shuffled(a, c, high);
    r[i + 2] = shuffled(b, d, low), r[i + 3] = shuffled(b, d, high);
  }
  constexpr V even{0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27};
  constexpr V odd{4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31};
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const V a = r[j], b = r[j + 4], c = r[j + 8], d = r[j + 12];
    const V ab = shuffled(a, b, even), cd = shuffled(c, d, even);
    const V AB = shuffled(a, b, odd), CD = shuffled(c, d, odd);
    r[j] = shuffled(ab, cd, even), r[j + 8] = shuffled(ab, cd, odd);
    r[j + 4] = shuffled(AB, CD, even), r[j + 12] = shuffled(AB, CD, odd);
  }
}

/// Transposes kLanes x kLanes words in place.
[[gnu::always_inline]] inline void transpose(WordVec (&r)[kLanes]) {
#if defined(__AVX512F__)
  transpose_16(r);
#elif defined(__AVX2__)
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    const WordVec a = r[i], b = r[i + 1];
    r[i] = shuffled(a, b, WordVec{0, 8, 1, 9, 4, 12, 5, 13});
    r[i + 1] = shuffled(a, b, WordVec{2, 10, 3, 11, 6, 14, 7, 15});
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    const WordVec a = r[i], b = r[i + 1], c = r[i + 2], d = r[i + 3];
    constexpr WordVec low{0, 1, 8, 9, 4, 5, 12, 13}, high{2, 3, 10, 11, 6, 7, 14, 15};
    r[i] = shuffled(a, c, low), r[i + 1] = shuffled(a, c, high);
    r[i + 2] = shuffled(b, d, low), r[i + 3] = shuffled(b, d, high);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const WordVec a = r[j], b = r[j + 4];
    r[j] = shuffled(a, b, WordVec{0, 1, 2, 3, 8, 9, 10, 11});
    r[j + 4] = shuffled(a, b, WordVec{4, 5, 6, 7, 12, 13, 14, 15});
  }
#else
  const WordVec a = shuffled(r[0], r[1], WordVec{0, 4, 1, 5}), b = shuffled(r[0], r[1], WordVec{2, 6, 3, 7});
  const WordVec c = shuffled(r[2], r[3], WordVec{0, 4, 1, 5}), d = shuffled(r[2], r[3], WordVec{2, 6, 3, 7});
  r[0] = shuffled(a, c, WordVec{0, 1, 4, 5}), r[1] = shuffled(a, c, WordVec{2, 3, 6, 7});
  r[2] = shuffled(b, d, WordVec{0, 1, 4, 5}), r[3] = shuffled(b, d, WordVec{2, 3, 6, 7});
#endif
}

/// kLanes units along k of kLanes rows of b transposed, turned: r[u] holds unit u of all rows. Rows
/// from `rows` on repeat the last one, units from `left` k on are 0.
template <class Source>
[[gnu::always_inline]] inline void turned(const typename Source::T* p, int64_t row_stride, int64_t rows, int64_t left,
                                          WordVec (&r)[kLanes]) {
  if (rows >= kLanes && left >= kLanes * Source::kStep) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) r[i] = Source::along(p + i * row_stride, kLanes * Source::kStep);
  } else {
    for (int i = 0; i < kLanes; ++i) r[i] = Source::along(p + (i < rows ? i : rows - 1) * row_stride, left);
  }
  transpose(r);
}

/// WordVec [u0, u1) of row m of a, which is [M,K] or, transposed, [K,M].
template <class Source>
inline void row_units(const Product& p, int64_t m, int64_t u0, int64_t u1, uint32_t* to) {
  constexpr int step = Source::kStep;
  const int64_t stride = p.transpose_a ? p.M : 1;
  const auto* row = static_cast<const typename Source::T*>(p.a) + (p.transpose_a ? m : m * p.K);
  int64_t u = u0;
  if (!p.transpose_a)
    for (; (u + kLanes) * step <= p.K && u + kLanes <= u1; u += kLanes)
      store_bits(to + u - u0, Source::along(row + u * step, kLanes * step));
  for (; u < u1; ++u) to[u - u0] = Source::one(row + u * step * stride, stride, p.K - u * step);
}

}  // namespace
}  // namespace lithe::kernels::cpu::LITHE_ISA
