#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/taylor_attention/cpu_tiles.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

/// Of a panel's queries, by order where split: 1 / sum of weights and the weighted mean of dout . v.
struct Stats {
  float *inverse, *mean;  // [3][kPanel]
};
[[gnu::always_inline]] inline Stats stats_of(const TaylorCall& call, float* space) {
  return {space + call.space.stats, space + call.space.stats + 3 * kPanel};
}

/// Rows [rows][stride] of T as f32 at row_of(cols), zeros up to kPanel rows.
template <class T>
[[gnu::always_inline]] inline void widen_panel(const T* from, int64_t stride, int64_t rows, int64_t cols, float* to) {
  widen_rows(from, stride, rows, cols, to);
  for (int64_t i = rows * row_of(cols); i < kPanel * row_of(cols); i += kLanes) store(to + i, Vec{});
}

/// to (+)= f32 rows at row_of(cols), plus twice `factor` times `second` where there is one.
template <class T>
[[gnu::noinline]] void put_rows(const float* from, const float* factor, const float* second, int64_t rows, int64_t cols,
                                T* to, int64_t stride, bool accumulate) {
  for (int64_t i = 0; i < rows; ++i)
    each(cols, [&](int64_t c, auto lanes) {
      const int64_t at = i * row_of(cols) + c;
      Vec d = load(from + at, lanes);
      if (second) d = d + 2.0f * load(factor + at, lanes) * load(second + at, lanes);
      if (accumulate) d = d + load(to + i * stride + c, lanes);
      store(to + i * stride + c, d, lanes);
    });
}

/// The sums of weights that the forward pass kept, inverted; 0 for lanes without a query. The mean of dout . v is
/// dout . out, and 0 where the sum was the floor.
template <class T, TaylorKind kKind>
[[gnu::noinline]] void open_stats(const TaylorCall& call, const TaylorSpan& span, int64_t head, int64_t first,
                                  int64_t rows, float* space) {
  constexpr int kTerms = kKind == TaylorKind::split ? 3 : 1;
  const Stats stats = stats_of(call, space);
  const int64_t vd = call.value_dim, stride = call.heads * vd;
  const float* dout = space + call.space.dout_rows;
  for (int64_t i = 0; i < kPanel; ++i)
    for (int t = 0; t < kTerms; ++t) {
      stats.mean[t * kPanel + i] = stats.inverse[t * kPanel + i] = 0;
      if (i >= rows) continue;
      float divisor = span.sums[((first + i) * call.heads + head) * kTerms + t];
      bool floored = false;
      if (kKind == TaylorKind::diag && !(divisor >= kFloor)) floored = true, divisor = kFloor;
      stats.inverse[t * kPanel + i] = 1 / divisor;
      if (kTerms == 3 || floored) continue;
      const T* out = static_cast<const T*>(span.out) + (first + i) * stride + head * vd;
      stats.mean[i] = sum(total(
          vd, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
            return load(out + c, lanes) * load(dout + i * row_of(vd) + c, lanes);
          }));
    }
}

/// Split: adds the weights of the first and second order times dout . v to their means.
[[gnu::noinline, maybe_unused]] void add_means(const TaylorCall& call, const Seen& seen, int64_t rows, float* space) {
  const Stats stats = stats_of(call, space);
  const float *x = space + call.space.x, *z = space + call.space.z, *g = space + call.space.g;
  for (int lane = 0; lane < kPanel; lane += kLanes) {
    Vec first{}, second{};
    for (int64_t j = 0; j < rows; ++j) {
      const int64_t at = j * kPanel + lane;
      const Orders o = orders<TaylorKind::split>(call, x + at, z + at);
      const Vec d = seen(load(g + at), j, lane);
      first += o.x * d;
      second += o.z * d;
    }
    float *m1 = stats.mean + kPanel + lane, *m2 = m1 + kPanel;
    const float *i1 = stats.inverse + kPanel + lane, *i2 = i1 + kPanel;
    store(m1, load(m1) + first * load(i1));
    store(m2, load(m2) + second * load(i2));
  }
}

/// From products x, z and g = dout . v to weights (in x), their gradient times scale (in g), and for diag and split
/// that of the squares' products (in z).
template <TaylorKind kKind>
[[gnu::noinline]] void weigh_back(const TaylorCall& call, const Seen& seen, int64_t rows, float* space) {
  const Stats stats = stats_of(call, space);
  float *x = space + call.space.x, *z = space + call.space.z, *g = space + call.space.g;
  const float scale = call.scale, half = 0.5f * call.scale * call.scale;
  for (int lane = 0; lane < kPanel; lane += kLanes) {
    Vec inverse[3], mean[3];
    for (int t = 0; t < 3; ++t) {
      const int from = (kKind == TaylorKind::split ? t : 0) * kPanel + lane;
      inverse[t] = load(stats.inverse + from);
      mean[t] = load(stats.mean + from);
    }
    for (int64_t j = 0; j < rows; ++j) {
      const int64_t at = j * kPanel + lane;
      const Orders o = orders<kKind>(call, x + at, z + at);
      const Vec d = load(g + at), first = (d - mean[1]) * inverse[1], second = (d - mean[2]) * inverse[2];
      if constexpr (kKind == TaylorKind::split)
        store(x + at, seen(inverse[0] + o.x * inverse[1] + o.z * inverse[2], j, lane));
      else
        store(x + at, seen(((1.0f + o.x) + o.z) * inverse[0], j, lane));
      if constexpr (kKind == TaylorKind::full) {
        store(g + at, seen(first * (1.0f + o.x) * scale, j, lane));
      } else {
        store(g + at, seen(first * scale, j, lane));
        store(z + at, seen(second * half, j, lane));
      }
    }
  }
}

/// All of one head of a span: dq panel by panel, dk and dv gathered in f32.
template <class T, TaylorKind kKind>
void backward_head(const TaylorCall& call, const TaylorSpan& span, int64_t head, float* space) {
  constexpr bool kSquares = kKind != TaylorKind::full;
  const TaylorGradArgs& grads = *call.grad_args;
  const int64_t qk = call.head_dim, vd = call.value_dim, qk_row = row_of(qk), vd_row = row_of(vd);
  const int64_t rows = span.rows, all_keys = span.keys;
  const int64_t q_stride = call.heads * qk, v_stride = call.heads * vd;
  float *k = space + call.space.k, *k2 = space + call.space.k2, *v = space + call.space.v;
  float *dk = space + call.space.dk, *dk2 = space + call.space.dk2, *dv = space + call.space.dv;
  float *q_rows = space + call.space.q_rows, *q2_rows = space + call.space.q2_rows,
        *dout_rows = space + call.space.dout_rows, *dout = space + call.space.dout;
  float *dq = space + call.space.dq, *dq2 = space + call.space.dq2;
  float *x = space + call.space.x, *z = space + call.space.z, *g = space + call.space.g;
  widen_rows(static_cast<const T*>(span.k) + head * qk, q_stride, all_keys, qk, k);
  widen_rows(static_cast<const T*>(span.v) + head * vd, v_stride, all_keys, vd, v);
  if constexpr (kSquares) square(k, all_keys * qk_row, k2);
  for (int64_t i = 0; i < all_keys * qk_row; i += kLanes) {
    store(dk + i, Vec{});
    if constexpr (kSquares) store(dk2 + i, Vec{});
  }
  for (int64_t i = 0; i < all_keys * vd_row; i += kLanes) store(dv + i, Vec{});
  alignas(64) float ones[kPanel];
  for (float& one : ones) one = 1;

  for (int64_t first = 0; first < rows; first += kPanel) {
    const int64_t count = rows - first < kPanel ? rows - first : kPanel;
    const int64_t end = call.causal ? first + count : all_keys;
    pack_queries<T, kKind>(call, span, head, first, count, space);
    widen_panel(static_cast<const T*>(span.q) + first * q_stride + head * qk, q_stride, count, qk, q_rows);
    const T* panel_dout = static_cast<const T*>(span.dout) + first * v_stride + head * vd;
    pack_panel(panel_dout, v_stride, count, vd, dout);
    widen_panel(panel_dout, v_stride, count, vd, dout_rows);
    if constexpr (kSquares) square(q_rows, kPanel * qk_row, q2_rows);
    for (int64_t i = 0; i < qk * kPanel; i += kLanes) {
      store(dq + i, Vec{});
      if constexpr (kSquares) store(dq2 + i, Vec{});
    }
    open_stats<T, kKind>(call, span, head, first, count, space);
    const auto open_tile = [&](int64_t key, int64_t keys) {
      products<kKind>(call, keys, k + key * qk_row, k2 + key * qk_row, space);
      multiply<Single, Start::zero, Order::rows>(keys, kPanel, vd, v + key * vd_row, vd_row, dout, kPanel, g, kPanel);
    };
    if constexpr (kKind == TaylorKind::split)
      for (int64_t key = 0; key < end; key += kKeyTile) {
        const int64_t keys = end - key < kKeyTile ? end - key : kKeyTile;
        open_tile(key, keys);
        add_means(call, Seen(call, first, key, keys), keys, space);
      }
    for (int64_t key = 0; key < end; key += kKeyTile) {
      const int64_t keys = end - key < kKeyTile ? end - key : kKeyTile;
      open_tile(key, keys);
      weigh_back<kKind>(call, Seen(call, first, key, keys), keys, space);
      multiply<Single, Start::add, Order::rows>(keys, vd_row, kPanel, x, kPanel, dout_rows, vd_row, dv + key * vd_row,
                                                vd_row);
      multiply<Single, Start::add, Order::rows>(keys, qk_row, kPanel, g, kPanel, q_rows, qk_row, dk + key * qk_row,
                                                qk_row);
      multiply<Single, Start::add, Order::columns>(qk, kPanel, keys, k + key * qk_row, qk_row, g, kPanel, dq, kPanel);
      if constexpr (kSquares) {
        multiply<Single, Start::add, Order::rows>(keys, qk_row, kPanel, z, kPanel, q2_rows, qk_row, dk2 + key * qk_row,
                                                  qk_row);
        multiply<Single, Start::add, Order::columns>(qk, kPanel, keys, k2 + key * qk_row, qk_row, z, kPanel, dq2,
                                                     kPanel);
      }
    }
    if constexpr (kSquares)
      for (int64_t i = 0; i < qk * kPanel; i += kLanes)
        store(dq + i, load(dq + i) + 2.0f * load(space + call.space.q + i) * load(dq2 + i));
    unpack_panel(dq, ones, count, qk, q_rows, qk_row);
    put_rows<T>(q_rows, nullptr, nullptr, count, qk, static_cast<T*>(span.dq) + first * q_stride + head * qk, q_stride,
                grads.accumulate_dq);
  }
  put_rows<T>(dk, k, kSquares ? dk2 : nullptr, all_keys, qk, static_cast<T*>(span.dk) + head * qk, q_stride,
              grads.accumulate_dk);
  put_rows<T>(dv, nullptr, nullptr, all_keys, vd, static_cast<T*>(span.dv) + head * vd, v_stride, grads.accumulate_dv);
}

template <class T, TaylorKind kKind>
void run(const TaylorCall& call) {
  parallel(call.count, 1, [&](int64_t begin, int64_t end, int64_t part) {
    for (int64_t i = begin; i < end; ++i)
      backward_head<T, kKind>(call, call.spans[call.tasks[i].span], call.tasks[i].head,
                              call.workspace + part * call.space.floats);
  });
}

}  // namespace

void taylor_backward(const TaylorCall& call) {
  by_type(call.dtype, [&]<class T>() {
    if (call.kind == TaylorKind::full)
      run<T, TaylorKind::full>(call);
    else if (call.kind == TaylorKind::diag)
      run<T, TaylorKind::diag>(call);
    else
      run<T, TaylorKind::split>(call);
  });
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
