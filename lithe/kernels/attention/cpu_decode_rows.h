// The rows of keys and values that decoding reads tile by tile: as they lie, turned by their positions, or of 4 bits
// made f32.
#pragma once

#include "lithe/kernels/attention/cpu_turn.h"

namespace lithe::kernels::cpu::LITHE_ISA {

constexpr int64_t kAhead = 8192;  // bytes fetched ahead of use: some 100 ns at full speed

/// Two codes of 4 bits.
struct Int4 {
  uint8_t pair;
};

/// The rows of a tile, which lie in one page; the next tile's may lie in another.
template <class C>
struct TileRows {
  static constexpr bool kInt4 = std::is_same_v<C, Int4>;
  const C* rows;
  int64_t scale_row;    // of Int4: two bf16 in place of each float
  const float* scales;  // [rows][scale_row], of integers
  int64_t bytes, end;   // of a row, of all of them
  int64_t jump;         // bytes from the end to the next tile
  bool again = false;   // these rows were read as keys just now

  [[gnu::always_inline]] TileRows(const AttentionRows& from, int64_t key, int64_t stop, int64_t key_rows,
                                  int64_t kv_heads, int64_t size) {
    const Int4Rows int4{kv_heads, size};
    const int64_t cols = kInt4 ? int4.bytes() : kv_heads * size;
    rows = row_at<C>(from, key, cols);
    scale_row = kInt4 ? int4.scales() / 2 : kv_heads;
    scales = scale_at(from, key, scale_row);
    bytes = cols * int64_t(sizeof(C));
    end = (stop - key) * bytes;
    jump = stop < key_rows ? int64_t(row_at<C>(from, stop, cols) - rows) * int64_t(sizeof(C)) - end : 0;
  }
  [[gnu::always_inline]] const float* scales_of(int64_t j) const {
    return sizeof(C) == 1 ? scales + j * scale_row : nullptr;
  }
  /// How far behind row j lie the bytes to ask for while it is read.
  [[gnu::always_inline]] int64_t ahead_of(int64_t j) const { return j * bytes + kAhead < end ? kAhead : kAhead + jump; }
  /// Asks for as many rows as from j on, ahead_of(j) bytes further; while rows are read again, for half as much of the
  /// next tile's second half, so that the memory does not rest.
  [[gnu::always_inline]] void fetch_ahead(int64_t j, int64_t count) const {
    if (again) {
      const char* p = reinterpret_cast<const char*>(rows) + end + jump + (end + j * bytes) / 2;
      for (int64_t byte = 0; byte < count * bytes / 2; byte += 64) __builtin_prefetch(p + byte, 0, 2);
      return;
    }
    const char* p = reinterpret_cast<const char*>(rows) + j * bytes + ahead_of(j);
    for (int64_t byte = 0; byte < count * bytes; byte += 64) __builtin_prefetch(p + byte, 0, 3);
  }
};

/// Asks for what lies `ahead` bytes (0: nothing) behind kRows rows at c, which are being read: a processor waits for
/// only some ten or twenty lines at a time, and a load that comes after many such requests waits for all of them.
template <int kRows, class T>
[[gnu::always_inline]] inline void fetch_behind(const T* rows, int64_t stride, int64_t c, int64_t ahead) {
  if (!ahead || c * int64_t(sizeof(T)) % 64) return;
#pragma GCC unroll 16
  for (int u = 0; u < kRows; ++u)
    __builtin_prefetch(reinterpret_cast<const char*>(rows + u * stride + c) + ahead, 0, 3);
}

/// Rows [j, j + count) in 4 bits as f32 in `to`, one after another.
[[gnu::always_inline]] inline void widen_rows(const TileRows<Int4>& from, int64_t j, int64_t count, int64_t kv_heads,
                                              int64_t size, float* to) {
  const Int4Rows int4{kv_heads, size};
  for (int64_t u = 0; u < count; ++u) {
    const auto* codes = reinterpret_cast<const uint8_t*>(from.rows) + (j + u) * from.bytes;
    const auto* scales = reinterpret_cast<const bf16*>(from.scales_of(j + u));
    for (int64_t head = 0; head < kv_heads; ++head, to += size)
      widen_int4_head(codes + head * int4.head_bytes(), scales + 2 * head * int4.head_groups(), size, to);
  }
}

/// A tile's keys as they lie.
template <class T>
struct PlainKeys {
  static constexpr bool kInPlace = true;
  const TileRows<T>& k;
  int64_t stride;
  /// Rows [j, j + count), one after another, and their scales where they are i8.
  [[gnu::always_inline]] const T* rows(int64_t j, int64_t) const { return k.rows + j * stride; }
  [[gnu::always_inline]] const float* scales(int64_t j) const { return k.scales_of(j); }
};

/// A tile's keys turned by their positions, up to kTurned of them at a time.
template <class T>
struct TurnedKeys {
  static constexpr bool kInPlace = false;
  const TileRows<T>& k;
  int64_t stride, kv_heads;
  TurningKeys turning;
  float* to;
  [[gnu::always_inline]] const float* rows(int64_t j, int64_t count) const {
    for (int64_t u = 0; u < count; ++u)
      turning.read(k.rows + (j + u) * stride, k.scales_of(j + u), kv_heads, j + u, to + u * stride, stride / kv_heads);
    return to;
  }
  [[gnu::always_inline]] const float* scales(int64_t) const { return nullptr; }
};

/// A tile's keys in 4 bits made f32, and turned by their positions where `turning` is given, up to kTurned of them at a
/// time.
struct WidenedKeys {
  static constexpr bool kInPlace = false;
  const TileRows<Int4>& k;
  int64_t kv_heads, head_dim;
  const TurningKeys* turning;
  float* to;
  [[gnu::always_inline]] const float* rows(int64_t j, int64_t count) const {
    const int64_t stride = kv_heads * head_dim;
    widen_rows(k, j, count, kv_heads, head_dim, to);
    for (int64_t u = 0; turning && u < count; ++u)
      turning->read<float>(to + u * stride, nullptr, kv_heads, j + u, to + u * stride, head_dim);
    return to;
  }
  [[gnu::always_inline]] const float* scales(int64_t) const { return nullptr; }
};

}  // namespace lithe::kernels::cpu::LITHE_ISA
