#include "lithe/kernels/cpu/dispatch.h"
#include "lithe/kernels/taylor_attention/cpu_tiles.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

/// Products [key][query] become weights, their sums are added to the last rows of the panel's sums.
template <TaylorKind kKind>
[[gnu::noinline]] void weigh(const TaylorCall& call, const Seen& seen, int64_t rows, float* space) {
  constexpr bool kSplit = kKind == TaylorKind::split;
  const int64_t term = (call.value_dim + 1) * kPanel;
  float *x = space + call.space.x, *z = space + call.space.z, *ones = space + call.space.g,
        *sums = space + call.space.sums + call.value_dim * kPanel;
  for (int lane = 0; lane < kPanel; lane += kLanes) {
    Vec total[3] = {};
    for (int64_t j = 0; j < rows; ++j) {
      const int64_t at = j * kPanel + lane;
      const Orders o = orders<kKind>(call, x + at, z + at);
      const Vec one = seen(splat(1), j, lane);
      if constexpr (kSplit) {
        const Vec first = seen(o.x, j, lane), second = seen(o.z, j, lane);
        total[0] += one;
        total[1] += first;
        total[2] += second;
        store(ones + at, one);
        store(x + at, first);
        store(z + at, second);
      } else {
        const Vec weight = seen((1.0f + o.x) + o.z, j, lane);
        total[0] += weight;
        store(x + at, weight);
      }
    }
    for (int t = 0; t < (kSplit ? 3 : 1); ++t) store(sums + t * term + lane, load(sums + t * term + lane) + total[t]);
  }
}

// What a state adds to the sums of a panel: its rows times the features of the panel's queries.
template <TaylorKind kKind>
[[gnu::noinline]] void read_panel(const TaylorCall& call, const float* state, float past, float* space) {
  const int64_t qk = call.head_dim, vd = call.value_dim, F = call.features, term = (vd + 1) * kPanel;
  const float *q = space + call.space.q, half = 0.5f * call.scale * call.scale;
  float *tile = space + call.space.x, *sums = space + call.space.sums;
  const auto add = [&](int64_t feature, int64_t count, int order) {
    multiply<Single, Start::add, Order::rows>(vd + 1, kPanel, count, state + feature, F, tile, kPanel,
                                              sums + (kKind == TaylorKind::split ? order * term : 0), kPanel);
  };
  for (int64_t first = 0; first < qk; first += kKeyTile) {
    const int64_t count = qk - first < kKeyTile ? qk - first : kKeyTile;
    const float* part = q + first * kPanel;
    for (int64_t i = 0; i < count * kPanel; i += kLanes) store(tile + i, load(part + i) * call.scale);
    add(F - 1 - qk + first, count, 1);
    if constexpr (kKind != TaylorKind::full) {
      const float* squares = space + call.space.q2 + first * kPanel;
      for (int64_t i = 0; i < count * kPanel; i += kLanes) store(tile + i, load(squares + i) * half);
      add(first, count, 2);
    } else {
      for (int64_t c = 0; c < qk; ++c) {
        for (int64_t i = 0; i < count * kPanel; i += kLanes)
          store(tile + i, load(part + i) * (load(q + c * kPanel + i % kPanel) * half));
        add(c * qk + first, count, 2);
      }
    }
  }
  for (int64_t m = 0; m <= vd; ++m) {
    const float count = m == vd && kKind != TaylorKind::full ? past : state[m * F + F - 1];
    for (int lane = 0; lane < kPanel; lane += kLanes)
      store(sums + m * kPanel + lane, load(sums + m * kPanel + lane) + count);
  }
}

/// Features of k (from a row of f32), with factors for the first and the second order.
template <TaylorKind kKind>
[[gnu::always_inline]] inline void features_of(int64_t qk, const float* k, float scale, float half, float* to) {
  if constexpr (kKind == TaylorKind::full) {
    for (int64_t c = 0; c < qk; ++c, to += qk) {
      const float factor = half * k[c];
      each(qk, [&](int64_t e, auto lanes) { store(to + e, factor * load(k + e, lanes), lanes); });
    }
  } else {
    each(qk, [&](int64_t e, auto lanes) {
      const Vec x = load(k + e, lanes);
      store(to + e, half * x * x, lanes);
    });
    to += qk;
  }
  each(qk, [&](int64_t e, auto lanes) { store(to + e, scale * load(k + e, lanes), lanes); });
  to[qk] = 1;
}

// The same as read_panel for one query, that of lane 0.
template <TaylorKind kKind>
[[gnu::noinline]] void read_row(const TaylorCall& call, const float* state, float past, float* space) {
  const int64_t qk = call.head_dim, vd = call.value_dim, F = call.features, term = (vd + 1) * kPanel;
  float *f = space + call.space.features, *q = space + call.space.k, *sums = space + call.space.sums;
  for (int64_t c = 0; c < qk; ++c) q[c] = space[call.space.q + c * kPanel];
  features_of<kKind>(qk, q, call.scale, 0.5f * call.scale * call.scale, f);
  const auto dot = [&](const float* s, int64_t begin, int64_t end) __attribute__((always_inline)) {
    return sum(total(
        end - begin, [&](int64_t i, auto lanes) __attribute__((always_inline)) {
          return load(s + begin + i, lanes) * load(f + begin + i, lanes);
        }));
  };
  for (int64_t m = 0; m <= vd; ++m) {
    const float *s = state + m * F, count = m == vd && kKind != TaylorKind::full ? past : s[F - 1];
    if constexpr (kKind == TaylorKind::split) {
      sums[m * kPanel] += count;
      sums[term + m * kPanel] += dot(s, qk, 2 * qk);
      sums[2 * term + m * kPanel] += dot(s, 0, qk);
    } else {
      sums[m * kPanel] += dot(s, 0, F - 1) + count;
    }
  }
}

// Rows [begin, end) enter the state of a head.
template <class T, TaylorKind kKind>
[[gnu::noinline]] void remember(const TaylorCall& call, const TaylorSpan& span, int64_t head, int64_t begin,
                                int64_t end, float* state, float* space) {
  const int64_t qk = call.head_dim, vd = call.value_dim, F = call.features, width = row_of(F), wide = vd + 1;
  const int64_t k_stride = call.heads * qk, v_stride = call.heads * vd;
  float *f = space + call.space.features, *values = space + call.space.values, *k = space + call.space.k;
  for (int64_t first = begin; first < end; first += kTaylorRows) {
    const int64_t rows = end - first < kTaylorRows ? end - first : kTaylorRows;
    widen_rows(static_cast<const T*>(span.k) + first * k_stride + head * qk, k_stride, rows, qk, k);
    for (int64_t j = 0; j < rows; ++j) {
      features_of<kKind>(qk, k + j * row_of(qk), 1, 1, f + j * width);
      const T* v = static_cast<const T*>(span.v) + (first + j) * v_stride + head * vd;
      each(vd, [&](int64_t c, auto lanes) { store(values + j * wide + c, load(v + c, lanes), lanes); });
      values[j * wide + vd] = 1;
    }
    // Four rows of the state at a time read the features once.
    const auto add = [&](int64_t m, int64_t count, auto width_of) __attribute__((always_inline)) {
      constexpr int kWidth = decltype(width_of)::value;
      each(
          count, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
            Vec s[kWidth];
            for (int u = 0; u < kWidth; ++u) s[u] = load(state + (m + u) * F + c, lanes);
            for (int64_t j = 0; j < rows; ++j) {
              const Vec feature = load(f + j * width + c, lanes);
              for (int u = 0; u < kWidth; ++u) s[u] = s[u] + values[j * wide + m + u] * feature;
            }
            for (int u = 0; u < kWidth; ++u) store(state + (m + u) * F + c, s[u], lanes);
          });
    };
    int64_t m = 0;
    for (; m + 4 <= vd; m += 4) add(m, F, std::integral_constant<int, 4>());
    for (; m < vd; ++m) add(m, F, std::integral_constant<int, 1>());
    add(vd, kKind == TaylorKind::full ? F : F - 1, std::integral_constant<int, 1>());
  }
}

/// Queries [first, first + rows) over the keys from `from` on and, of what came before, the state.
template <class T, TaylorKind kKind>
void forward_panel(const TaylorCall& call, const TaylorSpan& span, int64_t head, int64_t from, int64_t to,
                   int64_t first, int64_t rows, const float* state, int64_t past, float* space) {
  constexpr int kTerms = kKind == TaylorKind::split ? 3 : 1;
  const int64_t qk = call.head_dim, vd = call.value_dim, term = (vd + 1) * kPanel;
  const int64_t k_stride = call.heads * qk, v_stride = call.heads * vd;
  float *k = space + call.space.k, *k2 = space + call.space.k2, *v = space + call.space.v, *x = space + call.space.x;
  float *sums = space + call.space.sums, *factor = space + call.space.stats;
  pack_queries<T, kKind>(call, span, head, first, rows, space);
  for (int64_t i = 0; i < kTerms * term; i += kLanes) store(sums + i, Vec{});
  const int64_t end = call.causal && first + rows < to ? first + rows : to;
  for (int64_t key = from; key < end; key += kKeyTile) {
    const int64_t keys = end - key < kKeyTile ? end - key : kKeyTile;
    widen_rows(static_cast<const T*>(span.k) + key * k_stride + head * qk, k_stride, keys, qk, k);
    widen_rows(static_cast<const T*>(span.v) + key * v_stride + head * vd, v_stride, keys, vd, v);
    if constexpr (kKind != TaylorKind::full) square(k, keys * row_of(qk), k2);
    products<kKind>(call, keys, k, k2, space);
    weigh<kKind>(call, Seen(call, first, key, keys), keys, space);
    const float* weights[3] = {kTerms == 1 ? x : space + call.space.g, x, space + call.space.z};
    for (int t = 0; t < kTerms; ++t)
      multiply<Single, Start::add, Order::columns>(vd, kPanel, keys, v, row_of(vd), weights[t], kPanel, sums + t * term,
                                                   kPanel);
  }
  if (past > 0) {
    if (span.rows == 1)
      read_row<kKind>(call, state, float(past), space);
    else
      read_panel<kKind>(call, state, float(past), space);
  }
  for (int64_t i = 0; i < rows; ++i)
    for (int t = 0; t < kTerms; ++t)
      span.sums[((first + i) * call.heads + head) * kTerms + t] = sums[t * term + vd * kPanel + i];
  for (int lane = 0; lane < kPanel; lane += kLanes) {
    Vec inverse[kTerms];
    for (int t = 0; t < kTerms; ++t) {
      Vec sum = load(sums + t * term + vd * kPanel + lane);
      if constexpr (kKind == TaylorKind::diag) sum = sum >= kFloor ? sum : splat(kFloor);
      inverse[t] = 1.0f / sum;
    }
    if constexpr (kTerms == 3)
      for (int64_t i = lane; i < vd * kPanel; i += kPanel)
        store(sums + i, load(sums + i) * inverse[0] + load(sums + term + i) * inverse[1] +
                            load(sums + 2 * term + i) * inverse[2]);
    store(factor + lane, kTerms == 3 ? splat(1) : inverse[0]);
  }
  unpack_panel(sums, factor, rows, vd, static_cast<T*>(span.out) + first * v_stride + head * vd, v_stride);
}

template <class T, TaylorKind kKind>
void run(const TaylorCall& call) {
  parallel(call.count, 1, [&](int64_t begin, int64_t end, int64_t part) {
    float* space = call.workspace + part * call.space.floats;
    for (int64_t i = begin; i < end; ++i) {
      const TaylorTask& task = call.tasks[i];
      const TaylorSpan& span = call.spans[task.span];
      float* state = span.state ? span.state + task.head * call.state_floats : nullptr;
      const auto panels = [&](int64_t from, int64_t to, int64_t begin, int64_t end, int64_t past) {
        for (int64_t first = begin; first < end; first += kPanel)
          forward_panel<T, kKind>(call, span, task.head, from, to, first, end - first < kPanel ? end - first : kPanel,
                                  state, past, space);
      };
      if (!state || !span.own_keys) {
        panels(0, span.keys, task.begin, task.end, state ? span.past : 0);
        if (state) remember<T, kKind>(call, span, task.head, 0, span.keys, state, space);
        continue;
      }
      for (int64_t from = 0; from < span.rows; from += call.chunk) {
        const int64_t to = from + call.chunk < span.rows ? from + call.chunk : span.rows;
        panels(from, to, from, to, span.past + from);
        remember<T, kKind>(call, span, task.head, from, to, state, space);
      }
    }
  });
}

}  // namespace

void taylor_forward(const TaylorCall& call) {
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
