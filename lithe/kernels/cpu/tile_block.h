// Sums of 32 x 32 on four tiles, two tiles of each operand at a time: one load for each multiplication, the least that
// eight tiles allow.
#pragma once

#include "lithe/kernels/cpu/tile.h"

namespace lithe::kernels::cpu::LITHE_ISA::tile {

/// Rows of the first operand and columns of the second in a block, and bytes of either that a step over k takes: 64 of
/// each row and of each column, that is 32 k in bf16 or 64 in 8 bits.
constexpr int64_t kBlock = 2 * kRows, kStepBytes = kBlock * kRowBytes;

inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/// Words of 32 bits: element [r, n] at data[r * stride + n].
template <class T>
struct Words {
  T* data;
  int64_t stride;
};

/// The rows of the first operand: 64 bytes a step of each, rows `row` bytes apart, the second 16 `second` bytes after
/// the first, steps `step` bytes apart.
struct PanelRows {
  const uint8_t* data;
  int64_t row, second, step;
};
/// Packed: for each step one or two tiles, one after the other.
inline PanelRows packed_rows(const uint8_t* data, int64_t tiles) { return {data, kRowBytes, kBytes, tiles * kBytes}; }

/// to = from + a b. Panel b: for each step 16 rows of two tiles side by side.
template <class T>
struct BlockProduct {
  PanelRows a;
  const uint8_t* b;
  int64_t steps;
  const uint8_t* last;   // of b, a step more; or null
  const uint8_t* after;  // what is read after b
  int64_t ahead;         // how many steps earlier b is asked for
  Words<const T> from;   // null: zero
  Words<T> to;
};

struct Bf16 {
  using Sum = float;
  template <int C, int A, int B>
  [[gnu::always_inline]] static void dot() {
    dot_bf16<C, A, B>();
  }
};
struct Bytes {
  using Sum = int32_t;
  template <int C, int A, int B>
  [[gnu::always_inline]] static void dot() {
    dot_i8_u8<C, A, B>();
  }
};

// A share of the lines of a step of b.
template <int kShare, int kShares>
[[gnu::always_inline]] inline void fetch(const uint8_t* soon) {
  constexpr int64_t bytes = kStepBytes / kShares;
#pragma GCC unroll 32
  for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(soon + kShare * bytes + i);
}

template <class Kind, int kRowTiles>
[[gnu::always_inline]] inline void step(const uint8_t* a, int64_t row, int64_t second, const uint8_t* b,
                                        const uint8_t* soon) {
  constexpr int kShares = 2 * kRowTiles;
  load<6>(b, 2 * kRowBytes);
  load<4>(a, row);
  fetch<0, kShares>(soon);
  Kind::template dot<0, 4, 6>();
  load<7>(b + kRowBytes, 2 * kRowBytes);
  fetch<1, kShares>(soon);
  Kind::template dot<1, 4, 7>();
  if constexpr (kRowTiles == 2) {
    load<5>(a + second, row);
    fetch<2, kShares>(soon);
    Kind::template dot<2, 5, 6>();
    fetch<3, kShares>(soon);
    Kind::template dot<3, 5, 7>();
  }
}

/// One block of 16 (kRowTiles = 1) or 32 rows; a Session is open.
template <class Kind, int kRowTiles>
[[gnu::noinline]] void multiply(const BlockProduct<typename Kind::Sum>& p) {
  if (p.from.data) {
    const int64_t stride = p.from.stride * 4;
    load<0>(p.from.data, stride);
    load<1>(p.from.data + kRows, stride);
    if constexpr (kRowTiles == 2) {
      load<2>(p.from.data + kRows * p.from.stride, stride);
      load<3>(p.from.data + kRows * p.from.stride + kRows, stride);
    }
  } else {
    zero<0>();
    zero<1>();
    if constexpr (kRowTiles == 2) {
      zero<2>();
      zero<3>();
    }
  }
  const uint8_t *a = p.a.data, *b = p.b;
  const int64_t row = p.a.row, second = p.a.second;
  for (int64_t s = 0; s < p.steps; ++s, a += p.a.step, b += kStepBytes) {
    const int64_t left = p.steps - p.ahead - s;
    const uint8_t* soon = left > 0 ? b + p.ahead * kStepBytes : p.after - left * kStepBytes;
    step<Kind, kRowTiles>(a, row, second, b, soon);
  }
  if (p.last) step<Kind, kRowTiles>(a, row, second, p.last, p.after);
  const int64_t stride = p.to.stride * 4;
  store<0>(p.to.data, stride);
  store<1>(p.to.data + kRows, stride);
  if constexpr (kRowTiles == 2) {
    store<2>(p.to.data + kRows * p.to.stride, stride);
    store<3>(p.to.data + kRows * p.to.stride + kRows, stride);
  }
}

/// The same of 1 or 2 tiles of rows.
template <class Kind>
void multiply(int row_tiles, const BlockProduct<typename Kind::Sum>& p) {
  if (row_tiles == 1)
    multiply<Kind, 1>(p);
  else
    multiply<Kind, 2>(p);
}

/// A packed matrix (gemm/packed_matrix.h) as panels b: rows of 32 words, of 2 or 4 inputs of 32 outputs. 16 rows are a
/// step; what remains is copied, with zeros after it.
struct PackedPanels {
  const uint8_t* data;
  int64_t rows;  // of a panel

  static constexpr int64_t kPackedRow = kBlock * 4;
  const uint8_t* at(int64_t panel, int64_t step) const { return data + (panel * rows + step * kRows) * kPackedRow; }
  int64_t whole_steps() const { return rows / kRows; }
  /// null where no rows remain
  const uint8_t* rest(int64_t panel, uint8_t* copy) const {
    const int64_t bytes = rows % kRows * kPackedRow;
    if (!bytes) return nullptr;
    std::memcpy(copy, at(panel, whole_steps()), size_t(bytes));
    std::memset(copy + bytes, 0, size_t(kStepBytes - bytes));
    return copy;
  }
};

}  // namespace lithe::kernels::cpu::LITHE_ISA::tile
