// Vectors of f32 lanes over GCC's vector extensions: loads and stores of f32 and bf16, tails, sums, and
// the functions that the kernels need. Compiled once per instruction set, in that set's namespace; every
// function is forced inline, so that the linker can never give one set's code to another.
//
// a * b + c is written as such: these files are compiled with contraction to fused multiply-add.
// bf16 rounds to nearest even, NaN stays NaN. On avx512bf16 the conversion is one instruction, which
// flushes denormals (below 2^-126) to zero; nothing that trains in bf16 depends on numbers that small.
#pragma once

#include <cstdint>
#if defined(__x86_64__)
// gcc 12 sees use of the undefined values by which its own AVX-512 header says "any" (GCC bug 105593).
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#include <immintrin.h>
#pragma GCC diagnostic pop
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "lithe/tensor/dtype.h"

namespace lithe::kernels::cpu::LITHE_ISA {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX2__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float Vec __attribute__((vector_size(4 * kLanes)));
typedef int32_t IntVec __attribute__((vector_size(4 * kLanes)));
typedef uint32_t WordVec __attribute__((vector_size(4 * kLanes)));
typedef uint16_t HalfVec __attribute__((vector_size(2 * kLanes)));
typedef double DoubleVec __attribute__((vector_size(4 * kLanes)));  // kLanes / 2 of them
typedef float HalfFloats __attribute__((vector_size(2 * kLanes)));  // kLanes / 2 of them

/// Lane i of the result is lane at[i] of v; of a and b, it is lane at[i] of a followed by b.
template <class V, class I>
[[gnu::always_inline]] inline V shuffled(V v, I at) {
#if defined(__clang__)  // builds the fuzzers and lacks gcc's
  V out;
  for (unsigned i = 0; i < sizeof at / sizeof at[0]; ++i) out[i] = v[at[i]];
  return out;
#else
  return __builtin_shuffle(v, at);
#endif
}
template <class V, class I>
[[gnu::always_inline]] inline V shuffled(V a, V b, I at) {
#if defined(__clang__)
  constexpr unsigned kSize = sizeof at / sizeof at[0];
  V out;
  for (unsigned i = 0; i < kSize; ++i) out[i] = unsigned(at[i]) < kSize ? a[at[i]] : b[at[i] - kSize];
  return out;
#else
  return __builtin_shuffle(a, b, at);
#endif
}

/// Which lanes of a vector exist in memory: all of them, or the first `count` (0 < count < kLanes).
struct All {};
struct First {
  int count;
};

[[gnu::always_inline]] inline Vec splat(float x) { return x - Vec{}; }
[[gnu::always_inline]] inline Vec as_floats(IntVec x) { return reinterpret_cast<Vec>(x); }
[[gnu::always_inline]] inline IntVec as_ints(Vec x) { return reinterpret_cast<IntVec>(x); }
[[gnu::always_inline]] inline IntVec lane_numbers() {
  IntVec n;
  for (int i = 0; i < kLanes; ++i) n[i] = i;
  return n;
}

#if defined(__AVX512F__)
[[gnu::always_inline]] inline __mmask16 mask_of(First f) { return __mmask16((1u << f.count) - 1); }
#elif defined(__AVX2__)
[[gnu::always_inline]] inline __m256i mask_of(First f) { return (__m256i)(lane_numbers() < f.count); }
#endif

// ---- f32 in memory

[[gnu::always_inline]] inline Vec load(const float* p, All = {}) {
  Vec v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
[[gnu::always_inline]] inline void store(float* p, Vec v, All = {}) { __builtin_memcpy(p, &v, sizeof v); }

/// Lanes beyond `f` are 0 and their memory is not touched.
[[gnu::always_inline]] inline Vec load(const float* p, First f) {
#if defined(__AVX512F__)
  return _mm512_maskz_loadu_ps(mask_of(f), p);
#elif defined(__AVX2__)
  return _mm256_maskload_ps(p, mask_of(f));
#else
  Vec v{};
  for (int i = 0; i < f.count; ++i) v[i] = p[i];
  return v;
#endif
}
[[gnu::always_inline]] inline void store(float* p, Vec v, First f) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, mask_of(f), v);
#elif defined(__AVX2__)
  _mm256_maskstore_ps(p, mask_of(f), v);
#else
  for (int i = 0; i < f.count; ++i) p[i] = v[i];
#endif
}

/// The same around the caches, where the machine can; p is a multiple of the bytes that are written.
[[gnu::always_inline]] inline void stream(float* p, Vec v) {
#if defined(__AVX512F__)
  _mm512_stream_ps(p, v);
#elif defined(__AVX2__)
  _mm256_stream_ps(p, v);
#elif defined(__SSE2__)
  _mm_stream_ps(p, v);
#else
  store(p, v);
#endif
}
/// Before another thread may read what was streamed.
[[gnu::always_inline]] inline void finish_streams() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// ---- bf16 in memory, f32 in lanes

/// Each number in a word of its own.
[[gnu::always_inline]] inline WordVec words_of(HalfVec h) {
#if defined(__AVX2__) && !defined(__AVX512F__)
  return (WordVec)_mm256_cvtepu16_epi32((__m128i)h);  // gcc 12 takes five instructions for it
#else
  return __builtin_convertvector(h, WordVec);
#endif
}
[[gnu::always_inline]] inline Vec widen(HalfVec h) {
#if defined(__AVX512F__)
  // Each half comes into the upper half of its lane by one permutation.
  const __m512i from = (__m512i)(lane_numbers() * 0x10001);
  return (Vec)_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, from, _mm512_castsi256_si512((__m256i)h));
#else
  return as_floats(reinterpret_cast<IntVec>(words_of(h) << 16));
#endif
}
[[gnu::always_inline]] inline HalfVec narrow(Vec v) {
#if defined(__AVX512BF16__)
  return (HalfVec)_mm512_cvtneps_pbh(v);
#else
  const WordVec bits = reinterpret_cast<WordVec>(v);
  const WordVec rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16, quiet = bits >> 16 | 0x40;
  const WordVec result = v == v ? rounded : quiet;
#if defined(__AVX512F__)
  return (HalfVec)_mm512_cvtepi32_epi16((__m512i)result);
#elif defined(__AVX2__)
  // The pack works on each half of 128 bits; the permutation brings the halves together.
  const __m256i packed = _mm256_packus_epi32((__m256i)result, (__m256i)result);
  return (HalfVec)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
#else
  return __builtin_convertvector(result, HalfVec);
#endif
#endif
}
[[gnu::always_inline]] inline Vec load(const bf16* p, All = {}) {
  HalfVec h;
  __builtin_memcpy(&h, p, sizeof h);
  return widen(h);
}
[[gnu::always_inline]] inline void store(bf16* p, Vec v, All = {}) {
  const HalfVec h = narrow(v);
  __builtin_memcpy(static_cast<void*>(p), &h, sizeof h);
}
[[gnu::always_inline]] inline void stream(bf16* p, Vec v) {
#if defined(__AVX512F__)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(p), (__m256i)narrow(v));
#elif defined(__AVX2__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(p), (__m128i)narrow(v));
#else
  store(p, v);
#endif
}
[[gnu::always_inline]] inline Vec load(const bf16* p, First f) {
#if defined(__AVX512F__)
  return widen((HalfVec)_mm256_maskz_loadu_epi16(mask_of(f), p));
#else
  HalfVec h{};
  for (int i = 0; i < f.count; ++i) h[i] = p[i].bits;
  return widen(h);
#endif
}
[[gnu::always_inline]] inline void store(bf16* p, Vec v, First f) {
  const HalfVec h = narrow(v);
#if defined(__AVX512F__)
  _mm256_mask_storeu_epi16(p, mask_of(f), (__m256i)h);
#else
  for (int i = 0; i < f.count; ++i) p[i].bits = h[i];
#endif
}

// ---- lanes

[[gnu::always_inline]] inline Vec keep(Vec v, All) { return v; }
/// v in the lanes of `f`, 0 beyond.
[[gnu::always_inline]] inline Vec keep(Vec v, First f) { return lane_numbers() < f.count ? v : Vec{}; }
/// v in the lanes of `f`, `other` beyond.
[[gnu::always_inline]] inline Vec keep(Vec v, All, float) { return v; }
[[gnu::always_inline]] inline Vec keep(Vec v, First f, float other) {
  return lane_numbers() < f.count ? v : splat(other);
}

/// a > b ? a : b, so b where one is NaN.
[[gnu::always_inline]] inline Vec max(Vec a, Vec b) {
#if defined(__AVX512F__)
  return _mm512_max_ps(a, b);
#elif defined(__AVX2__)
  return _mm256_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}
[[gnu::always_inline]] inline Vec min(Vec a, Vec b) {
#if defined(__AVX512F__)
  return _mm512_min_ps(a, b);
#elif defined(__AVX2__)
  return _mm256_min_ps(a, b);
#else
  return a < b ? a : b;
#endif
}
[[gnu::always_inline]] inline Vec abs(Vec x) { return as_floats(as_ints(x) & 0x7fffffff); }
[[gnu::always_inline]] inline Vec sqrt(Vec x) {
#if defined(__AVX512F__)
  return _mm512_sqrt_ps(x);
#elif defined(__AVX2__)
  return _mm256_sqrt_ps(x);
#elif defined(__aarch64__)
  return (Vec)vsqrtq_f32((float32x4_t)x);
#else
  for (int i = 0; i < kLanes; ++i) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}

/// Sum of the lanes: halves added to each other, always in the same order.
[[gnu::always_inline]] inline float sum(Vec v) {
#pragma GCC unroll 4
  for (int half = kLanes / 2; half; half /= 2) v += shuffled(v, lane_numbers() ^ half);
  return v[0];
}
[[gnu::always_inline]] inline float max(Vec v) {
#pragma GCC unroll 4
  for (int half = kLanes / 2; half; half /= 2) v = max(v, shuffled(v, lane_numbers() ^ half));
  return v[0];
}

// ---- loops

/// Calls body(i, lanes) for i = 0, kLanes, ... so that [0, n) is covered; `lanes` says which lanes count.
template <class Body>
[[gnu::always_inline]] inline void each(int64_t n, Body&& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(i, All{});
  if (i < n) body(i, First{int(n - i)});
}

/// The sum over i in [0, n) of term(i, lanes), lane by lane, with four running sums in a fixed order.
template <class Term>
[[gnu::always_inline]] inline Vec total(int64_t n, Term&& term) {
  Vec a{}, b{}, c{}, d{};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    a += term(i, All{});
    b += term(i + kLanes, All{});
    c += term(i + 2 * kLanes, All{});
    d += term(i + 3 * kLanes, All{});
  }
  for (; i + kLanes <= n; i += kLanes) a += term(i, All{});
  if (i < n) b += keep(term(i, First{int(n - i)}), First{int(n - i)});
  return (a + b) + (c + d);
}

// ---- functions

#if defined(__AVX512F__)
/// 2^(i/16)
alignas(64) constexpr float kRoots[16] = {1.0f,        1.04427373f, 1.09050775f, 1.13878858f, 1.18920708f, 1.24185777f,
                                          1.29683959f, 1.35425556f, 1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f,
                                          1.68179286f, 1.75625217f, 1.8340081f,  1.91520655f};
#endif

/// e^x for x in [-104, 89] or NaN; see exp().
[[gnu::always_inline]] inline Vec exp_in_range(Vec x) {
#if defined(__AVX512F__)
  // x log2(e) = n + f, n a multiple of 1/16, |f| <= 1/32: 2^n from a table of 2^(i/16) that is one register, and
  // 2^f = 1 + f P(f), P fitted to an error of 2.3e-9. log2(e) has two parts.
  // The rest of the first is exact as a fused multiply-add, which a compiler may not make of a product that has two
  // uses.
  const Vec magic = splat(0x1.8p19f), log2e = splat(1.44269502f);
  const Vec near = _mm512_fmadd_ps(x, log2e, magic);  // adding it rounds to multiples of 1/16
  const Vec n = near - magic, f = x * 1.92596303e-8f + _mm512_fmsub_ps(x, log2e, n);
  const Vec root = _mm512_permutexvar_ps((__m512i)as_ints(near), load(kRoots));
  const Vec p = (f * 5.55057377e-2f + 0.240233555f) * f + 0.693147182f;
  return _mm512_scalef_ps(root * f * p + root, n);  // which multiplies by 2^floor(n)
#else
  // x = n ln 2 + r with |r| <= ln(2)/2, and e^r = 1 + r + r^2 P(r), P fitted to a relative error of 3e-9.
  const Vec magic = splat(0x1.8p23f);  // adding it rounds to an integer
  const Vec n = (x * 1.44269504f + magic) - magic;
  const Vec r = (x - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts, the first exact times n
  Vec p = splat(1.38145388e-3f);
  p = p * r + 8.36874515e-3f;
  p = p * r + 4.16683908e-2f;
  p = p * r + 0.166665204f;
  p = p * r + 0.499999934f;
  p = p * (r * r) + r + 1.0f;
  // Two steps, because 2^n itself may be out of range where p 2^n is not.
  const IntVec whole = __builtin_convertvector(n, IntVec), half = whole >> 1;
  return p * as_floats((half + 127) << 23) * as_floats((whole - half + 127) << 23);
#endif
}

/// e^x within 1 unit in the last place; 0 below -104, infinity above 88.73, NaN stays.
[[gnu::always_inline]] inline Vec exp(Vec x) {
  // In this order of operands a NaN passes through both.
  return exp_in_range(min(splat(89.0f), max(splat(-104.0f), x)));
}
/// The same for x <= 0 or NaN.
[[gnu::always_inline]] inline Vec exp_nonpositive(Vec x) { return exp_in_range(max(splat(-104.0f), x)); }

/// 1 / (1 + e^-x)
[[gnu::always_inline]] inline Vec sigmoid(Vec x) { return 1.0f / (1.0f + exp(-x)); }

/// The normal distribution: `cdf` Phi(x) and `density` phi(x).
/// Phi(-t) = e^(-t^2/2) u Q(u), u = 1 / (1 + 0.28 t), t >= 0, Q fitted to a relative error of 6e-8, so that
/// the lower tail keeps its relative accuracy and both values share one exponential.
struct Normal {
  Vec cdf, density;
};
[[gnu::always_inline]] inline Normal normal(Vec x) {
  const Vec t = abs(x), u = 1.0f / (1.0f + 0.28f * t), e = exp_nonpositive(-0.5f * (x * x));
  Vec q = splat(0.02279102f);
  q = q * u - 0.083364018f;
  q = q * u + 0.0697781621f;
  q = q * u + 0.0208423474f;
  q = q * u + 0.053262455f;
  q = q * u + 0.0920773629f;
  q = q * u + 0.100930625f;
  q = q * u + 0.111994806f;
  q = q * u + 0.111687267f;
  const Vec lower = e * (u * q);
  return {x < 0.0f ? lower : 1.0f - lower, e * 0.398942280f};
}

/// Sine and cosine of angles in [-pi/4, pi/4] plus `quarter` quarter turns.
struct Turn {
  Vec sine, cosine;
};
[[gnu::always_inline]] inline Turn turn(Vec r, IntVec quarter) {
  const Vec s = r * r;
  const Vec sine = r + r * s * ((-1.95169778e-4f * s + 8.33217585e-3f) * s - 0.166666549f);
  const Vec cosine = 1.0f - 0.5f * s + s * s * ((2.4438092e-5f * s - 1.38873645e-3f) * s + 4.16666468e-2f);
  const IntVec odd = (quarter & 1) != 0;
  const IntVec sine_sign = (quarter & 2) << 30, cosine_sign = ((quarter + 1) & 2) << 30;
  return {as_floats(as_ints(odd ? cosine : sine) ^ sine_sign), as_floats(as_ints(odd ? sine : cosine) ^ cosine_sign)};
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
