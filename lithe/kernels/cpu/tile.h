// Matrix tiles as AMX has them: eight registers of 16 rows of 64 bytes for each thread, and one instruction that
// multiplies two of them. Compiled for amx these are the instructions; elsewhere the same arithmetic in plain code, so
// that what is built on them runs anywhere.
//
// The instructions are written out, because gcc 12's intrinsics take only literal numbers of tiles and do not tell the
// compiler that a load reads memory.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AMX_TILE__)
#define LITHE_TILE_INSTRUCTIONS 1
#endif

namespace lithe::kernels::cpu::LITHE_ISA::tile {

constexpr int kTiles = 8, kRows = 16, kRowBytes = 64;
constexpr int kWords = kRowBytes / 4;  // words of 32 bits a row
constexpr int64_t kBytes = kRows * kRowBytes;

#ifdef LITHE_TILE_INSTRUCTIONS

/// What the processor is told about its tiles; bytes that are not named must be 0.
struct alignas(64) Configuration {
  uint8_t palette, first_row, zeros[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(Configuration) == 64);

/// While it lives, this thread has eight tiles of the full size, zero at first.
class Session {
 public:
  [[gnu::always_inline]] Session() {
    Configuration c{};
    c.palette = 1;
    for (int i = 0; i < kTiles; ++i) c.row_bytes[i] = kRowBytes, c.rows[i] = kRows;
    asm volatile("ldtilecfg %0" ::"m"(c));
  }
  [[gnu::always_inline]] ~Session() { asm volatile("tilerelease" ::: "memory"); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

template <int T>
[[gnu::always_inline]] inline void zero() {
  asm volatile("tilezero %%tmm%c0" ::"i"(T));
}
/// Rows `stride` bytes apart.
template <int T>
[[gnu::always_inline]] inline void load(const void* from, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(T) : "memory");
}
template <int T>
[[gnu::always_inline]] inline void store(void* to, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(T) : "memory");
}
/// C [16,16] f32 += A [16,32] bf16 times B [32,16] bf16; row i of B holds, column by column, its k = 2i and 2i + 1.
template <int C, int A, int B>
[[gnu::always_inline]] inline void dot_bf16() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
}
/// C [16,16] i32 += A [16,64] i8 times B [64,16] u8, modulo 2^32; row i of B holds, column by column, k = 4i to 4i + 3.
template <int C, int A, int B>
[[gnu::always_inline]] inline void dot_i8_u8() {
  asm volatile("tdpbsud %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
}
/// The same with B i8.
template <int C, int A, int B>
[[gnu::always_inline]] inline void dot_i8_i8() {
  asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(C), "i"(A), "i"(B));
}

#else

struct Tiles {
  bool configured = false;
  alignas(64) uint8_t data[kTiles][kBytes] = {};
};
inline thread_local constinit Tiles tiles;

// Tiles that nobody configured raise an exception there, and here.
inline uint8_t* tile_data(int t) {
  if (!tiles.configured) __builtin_trap();
  return tiles.data[t];
}

class Session {
 public:
  Session() {
    tiles.configured = true;
    std::memset(tiles.data, 0, sizeof tiles.data);
  }
  ~Session() { tiles.configured = false; }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

template <int T>
inline void zero() {
  std::memset(tile_data(T), 0, size_t(kBytes));
}
template <int T>
inline void load(const void* from, int64_t stride) {
  uint8_t* to = tile_data(T);
  for (int i = 0; i < kRows; ++i)
    std::memcpy(to + i * kRowBytes, static_cast<const uint8_t*>(from) + i * stride, kRowBytes);
}
template <int T>
inline void store(void* to, int64_t stride) {
  const uint8_t* from = tile_data(T);
  for (int i = 0; i < kRows; ++i) std::memcpy(static_cast<uint8_t*>(to) + i * stride, from + i * kRowBytes, kRowBytes);
}

/// Numbers below 2^-126 count as 0 of their sign, before and after each operation.
[[gnu::always_inline]] inline float flushed(float x) {
  const uint32_t bits = __builtin_bit_cast(uint32_t, x);
  return __builtin_bit_cast(float, bits & 0x7f800000u ? bits : bits & 0x80000000u);
}
[[gnu::always_inline]] inline float flushed_bf16(uint32_t bits) {
  return flushed(__builtin_bit_cast(float, bits << 16));
}

// As documented (Intel's manual, TDPBF16PS): products of even k are summed by fused multiply-adds from 0, those of odd
// k likewise, then both sums together and to C. In f64 the product is exact and its sum rounds to f32 as if it were,
// too.
inline void multiply_bf16(uint8_t* c, const uint8_t* a, const uint8_t* b) {
  float columns[2][kRows][kWords];
  for (int k = 0; k < kRows; ++k)
    for (int n = 0; n < kWords; ++n) {
      uint32_t pair;
      std::memcpy(&pair, b + k * kRowBytes + n * 4, 4);
      columns[0][k][n] = flushed_bf16(pair & 0xffff), columns[1][k][n] = flushed_bf16(pair >> 16);
    }
  for (int m = 0; m < kRows; ++m) {
    float sums[2][kWords] = {}, row[kWords];
    for (int k = 0; k < kRows; ++k) {
      uint32_t pair;
      std::memcpy(&pair, a + m * kRowBytes + k * 4, 4);
      for (int half = 0; half < 2; ++half) {
        const double x = flushed_bf16(half ? pair >> 16 : pair & 0xffff);
        for (int n = 0; n < kWords; ++n)
          sums[half][n] = flushed(float(double(sums[half][n]) + x * double(columns[half][k][n])));
      }
    }
    std::memcpy(row, c + m * kRowBytes, sizeof row);
    for (int n = 0; n < kWords; ++n) row[n] = flushed(flushed(row[n]) + flushed(sums[0][n] + sums[1][n]));
    std::memcpy(c + m * kRowBytes, row, sizeof row);
  }
}

template <class Byte>
void multiply_bytes(uint8_t* c, const uint8_t* a, const uint8_t* b) {
  for (int m = 0; m < kRows; ++m) {
    uint32_t row[kWords];
    std::memcpy(row, c + m * kRowBytes, sizeof row);
    for (int k = 0; k < kRows; ++k)
      for (int j = 0; j < 4; ++j) {
        const int x = int8_t(a[m * kRowBytes + k * 4 + j]);
        for (int n = 0; n < kWords; ++n) row[n] += uint32_t(x * int(Byte(b[k * kRowBytes + n * 4 + j])));
      }
    std::memcpy(c + m * kRowBytes, row, sizeof row);
  }
}

template <int C, int A, int B>
inline void dot_bf16() {
  multiply_bf16(tile_data(C), tile_data(A), tile_data(B));
}
template <int C, int A, int B>
inline void dot_i8_u8() {
  multiply_bytes<uint8_t>(tile_data(C), tile_data(A), tile_data(B));
}
template <int C, int A, int B>
inline void dot_i8_i8() {
  multiply_bytes<int8_t>(tile_data(C), tile_data(A), tile_data(B));
}

#endif

}  // namespace lithe::kernels::cpu::LITHE_ISA::tile
