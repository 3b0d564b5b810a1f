#include "lithe/bench/vectors.h"

#include <cstring>

#include "lithe/kernels/kernel.h"
#include "lithe/kernels/tile_support.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace lithe::bench {
namespace {

// As many chains as hide the latency of a multiply-add on processors that start two a cycle; where there are 16
// registers, they must leave some for constants.
constexpr int kChains = 16, kFewChains = 12;

// One loop of multiply-adds: `init` and `step` of chain s[j], `operations` a chain and round. What the compiler does
// not know about the chains keeps it from making one of them all.
#define LITHE_CHAINS(name, set, V, chains, init, step, operations)                            \
  [[gnu::target(set), gnu::noinline]] double name(int64_t rounds) {                           \
    V s[chains];                                                                              \
    _Pragma("GCC unroll 16") for (int j = 0; j < chains; ++j) {                               \
      s[j] = init;                                                                            \
      asm volatile("" : "+v"(s[j]));                                                          \
    }                                                                                         \
    for (int64_t i = 0; i < rounds; ++i) {                                                    \
      _Pragma("GCC unroll 16") for (int j = 0; j < chains; ++j) s[j] = step;                  \
    }                                                                                         \
    _Pragma("GCC unroll 16") for (int j = 0; j < chains; ++j) asm volatile("" : : "v"(s[j])); \
    return double(rounds) * chains * operations;                                              \
  }

// Eight sums, added up at the end so that no load is superfluous.
#define LITHE_READ(name, set, V, load, add)                                              \
  [[gnu::target(set), gnu::noinline]] int64_t name(const void* from, size_t bytes) {     \
    const auto* p = static_cast<const V*>(from);                                         \
    V s[8];                                                                              \
    std::memset(s, 0, sizeof s);                                                         \
    for (const V* end = p + bytes / sizeof(V); p < end; p += 8) {                        \
      _Pragma("GCC unroll 8") for (int j = 0; j < 8; ++j) s[j] = add(s[j], load(p + j)); \
    }                                                                                    \
    for (int j = 1; j < 8; ++j) s[0] = add(s[0], s[j]);                                  \
    int64_t sum;                                                                         \
    std::memcpy(&sum, &s[0], sizeof sum);                                                \
    return sum;                                                                          \
  }

#define LITHE_COPY(name, set, V, load, store)                                               \
  [[gnu::target(set), gnu::noinline]] void name(const void* from, void* to, size_t bytes) { \
    const auto* p = static_cast<const V*>(from);                                            \
    auto* q = static_cast<V*>(to);                                                          \
    for (const V* end = p + bytes / sizeof(V); p < end; p += 8, q += 8) {                   \
      _Pragma("GCC unroll 8") for (int j = 0; j < 8; ++j) store(q + j, load(p + j));        \
    }                                                                                       \
    _mm_sfence();                                                                           \
  }

#ifdef __x86_64__

#define LITHE_AVX512 "avx512f,avx512bw,avx512dq,avx512vl"
LITHE_CHAINS(f32_sse, "sse2", __m128, kFewChains, _mm_set1_ps(0.1f),
             _mm_add_ps(_mm_mul_ps(s[j], _mm_set1_ps(0.999f)), _mm_set1_ps(0.1f)), 4 * 2)
LITHE_CHAINS(f32_avx2, "avx2,fma", __m256, kFewChains, _mm256_set1_ps(0.1f),
             _mm256_fmadd_ps(s[j], _mm256_set1_ps(0.999f), _mm256_set1_ps(0.1f)), 8 * 2)
LITHE_CHAINS(f32_avx512, LITHE_AVX512, __m512, kChains, _mm512_set1_ps(0.1f),
             _mm512_fmadd_ps(s[j], _mm512_set1_ps(0.999f), _mm512_set1_ps(0.1f)), 16 * 2)
// The bits of 0.1 and of ones, as pairs of bf16 and as bytes.
LITHE_CHAINS(bf16_avx512, LITHE_AVX512 ",avx512bf16", __m512, kChains, _mm512_setzero_ps(),
             _mm512_dpbf16_ps(s[j], (__m512bh)_mm512_set1_epi32(0x3dcd3dcd), (__m512bh)_mm512_set1_epi32(0x3dcd3dcd)),
             32 * 2)
LITHE_CHAINS(int8_avx512, LITHE_AVX512 ",avx512vnni", __m512i, kChains, _mm512_setzero_si512(),
             _mm512_dpbusd_epi32(s[j], _mm512_set1_epi8(1), _mm512_set1_epi8(1)), 64 * 2)
LITHE_CHAINS(int8_avxvnni, "avx2,avxvnni", __m256i, kFewChains, _mm256_setzero_si256(),
             _mm256_dpbusd_avx_epi32(s[j], _mm256_set1_epi8(1), _mm256_set1_epi8(1)), 32 * 2)
LITHE_READ(read_sse, "sse2", __m128i, _mm_load_si128, _mm_add_epi64)
LITHE_READ(read_avx2, "avx2", __m256i, _mm256_load_si256, _mm256_add_epi64)
LITHE_READ(read_avx512, LITHE_AVX512, __m512i, _mm512_load_si512, _mm512_add_epi64)
LITHE_COPY(copy_sse, "sse2", __m128i, _mm_load_si128, _mm_stream_si128)
LITHE_COPY(copy_avx2, "avx2", __m256i, _mm256_load_si256, _mm256_stream_si256)
LITHE_COPY(copy_avx512, LITHE_AVX512, __m512i, _mm512_load_si512, _mm512_stream_si512)

const Vectors* choose() {
  static const Vectors sse{f32_sse, nullptr, nullptr, read_sse, copy_sse},
      avx2{f32_avx2, nullptr, nullptr, read_avx2, copy_avx2},
      avxvnni{f32_avx2, nullptr, int8_avxvnni, read_avx2, copy_avx2},
      avx512{f32_avx512, nullptr, nullptr, read_avx512, copy_avx512},
      avx512bf16{f32_avx512, bf16_avx512, int8_avx512, read_avx512, copy_avx512};
  switch (kernels::machine_isa()) {
    case kernels::Isa::generic: return &sse;
    case kernels::Isa::avx2: return &avx2;
    case kernels::Isa::avxvnni: return &avxvnni;
    case kernels::Isa::avx512: return &avx512;
    case kernels::Isa::amx: {
      const auto [bf16, int8] = kernels::tile_peak();
      static const Vectors amx{f32_avx512, bf16, int8, read_avx512, copy_avx512};
      return &amx;
    }
    default: return &avx512bf16;
  }
}

#else

typedef float Floats __attribute__((vector_size(16)));
typedef int64_t Ints __attribute__((vector_size(16)));

double f32_plain(int64_t rounds) {
  Floats s[kChains];
  for (Floats& x : s) x = Floats{} + 0.1f;
  for (int64_t i = 0; i < rounds; ++i) {
    _Pragma("GCC unroll 16") for (int j = 0; j < kChains; ++j) s[j] = s[j] * 0.999f + 0.1f;
  }
  for (Floats& x : s) {
    volatile float keep = x[0];
    (void)keep;
  }
  return double(rounds) * kChains * 4 * 2;
}

int64_t read_plain(const void* from, size_t bytes) {
  const auto* p = static_cast<const Ints*>(from);
  Ints s[8] = {};
  for (const Ints* end = p + bytes / sizeof(Ints); p < end; p += 8)
    for (int j = 0; j < 8; ++j) s[j] += p[j];
  for (int j = 1; j < 8; ++j) s[0] += s[j];
  return s[0][0];
}

void copy_plain(const void* from, void* to, size_t bytes) { std::memcpy(to, from, bytes); }

const Vectors* choose() {
  static const Vectors plain{f32_plain, nullptr, nullptr, read_plain, copy_plain};
  return &plain;
}

#endif

}  // namespace

const Vectors& vectors() { return *choose(); }

}  // namespace lithe::bench
