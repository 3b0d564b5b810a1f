// Tiles of Taylor weights [key][query], as attention/cpu_tiles.h has them, and the squares that the elementwise second
// order is made of.
#pragma once

#include "lithe/kernels/attention/cpu_tiles.h"
#include "lithe/kernels/cpu/parallel.h"
#include "lithe/kernels/taylor_attention/cpu.h"

namespace lithe::kernels::cpu::LITHE_ISA {

constexpr float kFloor = float(kTaylorFloor);

/// to = from^2 for a count that is a multiple of 16.
[[gnu::always_inline]] inline void square(const float* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const Vec x = load(from + i);
    store(to + i, x * x);
  }
}

/// x = scale q . k in the lanes of a tile, and its second order.
struct Orders {
  Vec x, z;
};
template <TaylorKind kKind>
[[gnu::always_inline]] inline Orders orders(const TaylorCall& call, const float* x, const float* z) {
  const Vec first = load(x) * call.scale;
  if constexpr (kKind == TaylorKind::full) return {first, 0.5f * first * first};
  return {first, load(z) * (0.5f * call.scale * call.scale)};
}

/// Products q . k [rows][kPanel] of a tile's keys with a panel of queries, and for diag and split those of the squares.
template <TaylorKind kKind>
[[gnu::always_inline]] inline void products(const TaylorCall& call, int64_t rows, const float* k, const float* k2,
                                            float* space) {
  const int64_t qk = call.head_dim, stride = row_of(qk);
  multiply<Single, Start::zero, Order::rows>(rows, kPanel, qk, k, stride, space + call.space.q, kPanel,
                                             space + call.space.x, kPanel);
  if constexpr (kKind != TaylorKind::full)
    multiply<Single, Start::zero, Order::rows>(rows, kPanel, qk, k2, stride, space + call.space.q2, kPanel,
                                               space + call.space.z, kPanel);
}

/// A panel's queries, transposed, and their squares.
template <class T, TaylorKind kKind>
[[gnu::always_inline]] inline void pack_queries(const TaylorCall& call, const TaylorSpan& span, int64_t head,
                                                int64_t first, int64_t rows, float* space) {
  const int64_t qk = call.head_dim, stride = call.heads * qk;
  pack_panel(static_cast<const T*>(span.q) + first * stride + head * qk, stride, rows, qk, space + call.space.q);
  if constexpr (kKind != TaylorKind::full) square(space + call.space.q, qk * kPanel, space + call.space.q2);
}

/// Which of the keys [key, ...) the queries [first, first + kPanel) see: all, or key + j <= first + lane.
struct Seen {
  bool all;
  int32_t last;  // of the first query
  [[gnu::always_inline]] Seen(const TaylorCall& call, int64_t first, int64_t key, int64_t rows)
      : all(!call.causal || key + rows <= first + 1), last(all ? 0 : int32_t(first - key)) {}
  [[gnu::always_inline]] Vec operator()(Vec x, int64_t key, int lane) const {
    if (all) return x;
    return lane_numbers() + (last + lane) >= int32_t(key) ? x : Vec{};
  }
};

}  // namespace lithe::kernels::cpu::LITHE_ISA
