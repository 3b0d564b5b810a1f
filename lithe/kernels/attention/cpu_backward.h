// The gradient recomputes each tile of weights from q, k and lse; nothing of the size of the map is kept.
// dq of a query sums over tiles of keys in ascending order, dk and dv of a key over heads and panels of
// queries in ascending order, whichever tasks do it: a division of the work never changes a bit.
#pragma once

#include "lithe/kernels/attention/cpu_bias.h"
#include "lithe/kernels/attention/cpu_cap.h"
#include "lithe/kernels/cpu/parallel.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace backward {

// Keys of a tile here: they, their gradients and the weights of a panel stay in the first cache together.
constexpr int kGradTile = kKeyTile / 2;

/// What one visit computes: heads [head, head_end) of a group, their queries against keys, both cut to ranges.
struct Visit {
  const AttentionSpan* span;
  int64_t head, head_end;
  Range queries, keys;
  bool continues_dq;  // dq already holds a part of the sum
};

/// Rows of a gradient, f32 or bf16, of one head.
struct Rows {
  void* at;
  DType type;
  int64_t stride;
  [[gnu::always_inline]] Rows(void* base, DType type, int64_t row, int64_t stride, int64_t col)
      : at(static_cast<char*>(base) + (row * stride + col) * (type == DType::f32 ? 4 : 2)),
        type(type),
        stride(stride) {}
  template <class F>
  [[gnu::always_inline]] void visit(F&& f) const {
    if (type == DType::f32)
      f(static_cast<float*>(at));
    else
      f(static_cast<bf16*>(at));
  }
};

[[gnu::always_inline]] inline void clear(float* x, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) store(x + i, Vec{});
}

/// Where the operands of one panel of a block lie.
struct Slot {
  float *q, *dout, *q_rows, *dout_rows, *dq, *lse, *delta;
  [[gnu::always_inline]] Slot(const AttentionCall& call, float* space, int64_t i)
      : q(space + call.space.q + i * kPanel * call.head_dim),
        dout(space + call.space.dout + i * kPanel * call.value_dim),
        q_rows(space + call.space.q_rows + i * kPanel * row_of(call.head_dim)),
        dout_rows(space + call.space.dout_rows + i * kPanel * row_of(call.value_dim)),
        dq(space + call.space.dq + i * kPanel * call.head_dim),
        lse(space + call.space.stats + i * 2 * kPanel),
        delta(lse + kPanel) {}
};

/// A panel of queries as operands: transposed for the products over channels, as rows (two by two when
/// paired) for those over queries, with lse (of base 2) and delta = dout . out in lanes.
template <class Mode, bool kKeys>
void open_panel(const AttentionCall& call, const AttentionSpan& span, int64_t head, const Panel& panel,
                const Slot& slot) {
  using T = typename Mode::T;
  const int64_t qk = call.head_dim, vd = call.value_dim, q_stride = call.heads * qk, o_stride = call.heads * vd;
  const T* q = static_cast<const T*>(span.q) + panel.first * q_stride + head * qk;
  const T* dout = static_cast<const T*>(span.dout) + panel.first * o_stride + head * vd;
  const T* out = static_cast<const T*>(span.out) + panel.first * o_stride + head * vd;
  if constexpr (Mode::Dot::kPairs) {
    pack_panel(reinterpret_cast<const float*>(q), q_stride / 2, panel.rows, qk / 2, slot.q);
    pack_panel(reinterpret_cast<const float*>(dout), o_stride / 2, panel.rows, vd / 2, slot.dout);
  } else {
    pack_panel(q, q_stride, panel.rows, qk, slot.q);
    pack_panel(dout, o_stride, panel.rows, vd, slot.dout);
  }
  if constexpr (kKeys) {
    const int64_t lines = Mode::Dot::kPairs ? (panel.rows + 1) / 2 : panel.rows,
                  all = Mode::Dot::kPairs ? kPanel / 2 : kPanel;
    if constexpr (Mode::Dot::kPairs) {
      pair_rows(q, q_stride, panel.rows, qk, slot.q_rows);
      pair_rows(dout, o_stride, panel.rows, vd, slot.dout_rows);
    } else {
      widen_rows(q, q_stride, panel.rows, qk, slot.q_rows);
      widen_rows(dout, o_stride, panel.rows, vd, slot.dout_rows);
    }
    clear(slot.q_rows + lines * row_of(qk), (all - lines) * row_of(qk));
    clear(slot.dout_rows + lines * row_of(vd), (all - lines) * row_of(vd));
  }
  for (int64_t i = 0; i < kPanel; ++i) {
    const float l = i < panel.rows ? span.lse[(panel.first + i) * call.heads + head] : 0;
    // Of a row that sees nothing all logits are -inf; any finite lse makes its weights 0. Lanes without a query get
    // weights of 0 whatever their logits.
    slot.lse[i] = i >= panel.rows ? 0x1p100f : l == kNone ? 0 : l * kLog2E;
    slot.delta[i] = i < panel.rows
                        ? sum(total(
                              vd,
                              [&](int64_t c, auto lanes) __attribute__((always_inline)) {
                                return load(dout + i * o_stride + c, lanes) * load(out + i * o_stride + c, lanes);
                              }))
                        : 0;
    // The gradient of lse adds to that of each logit, times its weight.
    if (call.extras.dlse && i < panel.rows)
      slot.delta[i] -= call.extras.dlse[(span.query_row + panel.first + i) * call.heads + head];
  }
}

/// From logits and dout . v to weights p = 2^(scale log2 e logit - lse) and their logits' gradients
/// scale p (dout . v - delta), in place; `plain`, unless null, gets them without the scale. kCapped: `slopes` are
/// factors on the former beside the scale. kMultiplied: p and dout . v times `multipliers`, and `plain` gets their
/// product. When paired, both become bf16, two queries to a word, and `by_keys` gets the gradients again, two keys to a
/// word.
template <class Dot, bool kCapped, bool kMultiplied>
[[gnu::noinline]] void differentiate(float* p, float* dp, int64_t rows, float scale, const float* lse,
                                     const float* delta, [[maybe_unused]] float* by_keys, float* plain,
                                     [[maybe_unused]] const float* slopes, [[maybe_unused]] Numbers multipliers) {
  const float to_power = scale * kLog2E;
  // Of a weight and what came of it, those of the logit; `at` is in p, row j and `lane` in multipliers.
  const auto of_logit = [&](Vec & weight, int64_t at, int64_t j, int64_t lane, Vec delta)
      __attribute__((always_inline)) {
    (void)j, (void)lane;
    Vec came = load(dp + at);
    if constexpr (kMultiplied) {
      const Vec by = load(multipliers.at + j * multipliers.stride + lane);
      came *= by;
      const Vec gradient = weight * (came - delta);
      if (plain) store(plain + at, weight * came);
      weight *= by;
      return gradient;
    } else {
      const Vec gradient = weight * (came - delta);
      if (plain) store(plain + at, gradient);
      return gradient;
    }
  };
  if constexpr (Dot::kPairs) {
    constexpr int kVectors = kPanel / kLanes;
    Vec l[kVectors], d[kVectors], even[kVectors];
    for (int v = 0; v < kVectors; ++v) l[v] = load(lse + v * kLanes), d[v] = load(delta + v * kLanes), even[v] = Vec{};
    for (int64_t j = 0; j < rows; ++j) {
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; v += 2) {
        Vec weight[2], gradient[2];
#pragma GCC unroll 2
        for (int u = 0; u < 2; ++u) {
          const int64_t at = j * kPanel + (v + u) * kLanes;
          weight[u] = power(load(p + at) * to_power - l[v + u]);
          gradient[u] = of_logit(weight[u], at, j, (v + u) * kLanes, d[v + u]) * scale;
          if constexpr (kCapped) gradient[u] *= load(slopes + at);
        }
        // Behind what is still to be read.
        store(p + (j * kPanel + v * kLanes) / 2, Dot::follow(weight[0], weight[1]));
        store(dp + (j * kPanel + v * kLanes) / 2, Dot::follow(gradient[0], gradient[1]));
#pragma GCC unroll 2
        for (int u = 0; u < 2; ++u) {
          if (j % 2) store(by_keys + j / 2 * kPanel + (v + u) * kLanes, Dot::join(even[v + u], gradient[u]));
          even[v + u] = gradient[u];
        }
      }
    }
    if (rows % 2)
      for (int v = 0; v < kVectors; ++v) store(by_keys + rows / 2 * kPanel + v * kLanes, Dot::join(even[v], Vec{}));
  } else {
    for (int lane = 0; lane < kPanel; lane += kLanes) {
      const Vec l = load(lse + lane), d = load(delta + lane);
      for (int64_t i = lane, j = 0; j < rows; i += kPanel, ++j) {
        Vec weight = power(load(p + i) * to_power - l);
        const Vec gradient = of_logit(weight, i, j, lane, d);
        store(p + i, weight);
        if constexpr (kCapped)
          store(dp + i, gradient * scale * load(slopes + i));
        else
          store(dp + i, gradient * scale);
      }
    }
  }
}

/// Keys [begin, end) of a tile as operands; `over_keys` is k for the product that sums over keys.
struct KeyTile {
  const float *k, *v, *over_keys;
  int64_t k_stride, v_stride, over_stride;
};

template <class Mode, bool kQueries>
[[gnu::always_inline]] inline KeyTile open_tile(const AttentionCall& call, const AttentionSpan& span, int64_t kv_head,
                                                Range keys, float* space) {
  using T = typename Mode::T;
  const int64_t qk = call.head_dim, vd = call.value_dim, rows = keys.end - keys.begin;
  const int64_t k_stride = call.kv_heads * qk, v_stride = call.kv_heads * vd;
  const T* k = static_cast<const T*>(span.k) + keys.begin * k_stride + kv_head * qk;
  const T* v = static_cast<const T*>(span.v) + keys.begin * v_stride + kv_head * vd;
  float *k_space = space + call.space.k, *v_space = space + call.space.v;
  if constexpr (Mode::Dot::kPairs) {
    constexpr typename Mode::Dot kDot;
    if constexpr (kQueries) lay_over_keys(kDot, k, k_stride, rows, qk, kGradTile, k_space);
    return {
        reinterpret_cast<const float*>(k),    reinterpret_cast<const float*>(v), k_space, k_stride / 2, v_stride / 2,
        stride_over_keys(kDot, kGradTile, qk)};
  } else {
    widen_rows(k, k_stride, rows, qk, k_space);
    if constexpr (sizeof(T) == sizeof(float)) return {k_space, v, k_space, row_of(qk), v_stride, row_of(qk)};
    widen_rows(v, v_stride, rows, vd, v_space);
    return {k_space, v_space, k_space, row_of(qk), row_of(vd), row_of(qk)};
  }
}

/// One panel of queries against keys [begin, end) of the tile at `first`.
template <class Mode, bool kQueries, bool kKeys>
[[gnu::always_inline]] inline void visit_tile(const AttentionCall& call, const Visit& visit, const Panel& panel,
                                              const Slot& slot, const KeyTile& tile, int64_t first, Range keys,
                                              int64_t head, const uint32_t* rule, float* space) {
  using Dot = typename Mode::Dot;
  const AttentionSpace& at = call.space;
  const int64_t qk = call.head_dim, vd = call.value_dim, rows = keys.end - keys.begin, skip = keys.begin - first,
                per = Dot::kPairs ? 2 : 1;
  float *p = space + at.p, *dp = space + at.dp, *by_keys = Dot::kPairs ? dp + kKeyTile * kPanel : dp;
  // What the first half of the panel does not see is hidden, so that its weights are 0 and need no product.
  const int64_t low = panel.low(keys);
  multiply_keys(Dot{}, rows, low, qk / per, tile.k + skip * tile.k_stride, tile.k_stride, slot.q, p);
  multiply_keys(Dot{}, rows, rows, vd / per, tile.v + skip * tile.v_stride, tile.v_stride, slot.dout, dp);
  const AttentionExtras& extras = call.extras;
  const bool has_cap = call.softcap != 0, has_factors = extras.pairs_multiply && has_pairs(call, head),
             capped = has_cap || has_factors;
  float slopes[kGradTile * kPanel];
  if (has_cap) cap_logits(call, rows * kPanel, p, slopes);
  if (has_factors) apply_pairs<true>(call, *visit.span, panel, keys, p, slopes, !has_cap);
  if (extras.bias) add_bias(call, *visit.span, head, panel, keys, 1 / call.scale, p);
  if (!panel.all_see(keys)) hide(*visit.span, panel, keys, p);
  if (rule) hide_by_rule(rule, keys.begin % kKeyTile, rows, p);
  if (extras.dshares)
    add_rows_by_distance(
        extras.dshares + ((visit.span->query_row + panel.first) * call.heads + head) * extras.share_numbers,
        call.heads * extras.share_numbers, panel.rows,
        {distance_of(*visit.span, panel.first, keys.begin) - extras.shares_first, extras.share_numbers}, rows, 1, dp);
  float plain[kGradTile * kPanel], of_weights[kGradTile * kPanel];
  const bool wanted = kQueries && extras.gradients, by_key = kKeys && extras.dcolumns;
  Numbers by;
  if (extras.multiplies) by = multipliers_of(call, *visit.span, head, panel, keys, of_weights);
  const auto change = by.at ? (capped ? differentiate<Dot, true, true> : differentiate<Dot, false, true>)
                            : (capped ? differentiate<Dot, true, false> : differentiate<Dot, false, false>);
  change(p, dp, rows, call.scale, slot.lse, slot.delta, by_keys, wanted || by_key ? plain : nullptr, slopes, by);
  if (wanted) add_bias_gradient(call, *visit.span, head, panel, keys, plain);
  if (by_key) add_column_gradient(call, *visit.span, head, panel, keys, plain);
  if constexpr (kKeys) {
    const int64_t behind = keys.begin - visit.keys.begin;
    sum_over_queries(Dot{}, rows, low, row_of(vd), p, slot.dout_rows, space + at.dv + behind * row_of(vd));
    sum_over_queries(Dot{}, rows, low, row_of(qk), dp, slot.q_rows, space + at.dk + behind * row_of(qk));
  }
  if constexpr (kQueries) {
    const int64_t steps = (rows + per - 1) / per, low_steps = (low + per - 1) / per;
    sum_over_keys<Start::add>(Dot{}, qk, low_steps, steps, over_keys(Dot{}, tile.over_keys, tile.over_stride, skip),
                              tile.over_stride, by_keys, slot.dq);
  }
}

/// Queries [begin, end) of one head, at most kBlock of them, against all keys of the visit.
template <class Mode, bool kQueries, bool kKeys>
void visit_block(const AttentionCall& call, const Visit& visit, int64_t head, Range queries, float* space) {
  const AttentionGradArgs& g = *call.grad_args;
  const AttentionSpan& span = *visit.span;
  const int64_t qk = call.head_dim, kv_head = head / (call.heads / call.kv_heads);
  const bool add = visit.continues_dq || g.accumulate_dq;
  Route route(call, span, head, queries);
  const auto cut = [&](const Panel& panel) __attribute__((always_inline)) {
    const Range seen = panel.seen();
    return Range{seen.begin > visit.keys.begin ? seen.begin : visit.keys.begin,
                 seen.end < visit.keys.end ? seen.end : visit.keys.end};
  };
  bool idle[kBlock / kPanel];  // panels whose dq stays as it is
  Range seen{visit.keys.end, visit.keys.begin};
  for (int64_t first = queries.begin, i = 0; first < queries.end; first += kPanel, ++i) {
    const Panel panel(call, span, head, first, queries.end);
    const Slot slot(call, space, i);
    const Range keys = route.within(i, cut(panel));
    idle[i] = keys.begin >= keys.end && (add || !kQueries);
    if (idle[i]) continue;
    if constexpr (kQueries) {
      const Rows dq(span.dq, call.dq_type, first, call.heads * qk, head * qk);
      if (add)
        dq.visit([&](const auto* from) { pack_panel(from, dq.stride, panel.rows, qk, slot.dq); });
      else
        clear(slot.dq, qk * kPanel);
    }
    if (keys.begin >= keys.end) continue;
    open_panel<Mode, kKeys>(call, span, head, panel, slot);
    seen.begin = keys.begin < seen.begin ? keys.begin : seen.begin;
    seen.end = keys.end > seen.end ? keys.end : seen.end;
  }
  for (int64_t key = route.seek(seen.begin / kGradTile * kGradTile, seen.end), stop; key < seen.end;
       key = route.seek(stop, seen.end)) {
    stop = key + kGradTile < seen.end ? key + kGradTile : seen.end;
    const KeyTile tile = open_tile<Mode, kQueries>(call, span, kv_head, {key, stop}, space);
    for (int64_t first = queries.begin, i = 0; first < queries.end; first += kPanel, ++i) {
      const Panel panel(call, span, head, first, queries.end);
      Range keys = cut(panel);
      keys = {keys.begin > key ? keys.begin : key, keys.end < stop ? keys.end : stop};
      if constexpr (Mode::Dot::kPairs) keys.begin -= keys.begin & 1;  // pairs start at even keys
      const uint32_t* rule;
      if (keys.begin < keys.end && route.meets(i, key, rule))
        visit_tile<Mode, kQueries, kKeys>(call, visit, panel, Slot(call, space, i), tile, key, keys, head, rule, space);
    }
  }
  if constexpr (kQueries) {
    float ones[kPanel];
    for (int i = 0; i < kPanel; i += kLanes) store(ones + i, splat(1));
    for (int64_t first = queries.begin, i = 0; first < queries.end; first += kPanel, ++i) {
      if (idle[i]) continue;
      const int64_t rows = queries.end - first < kPanel ? queries.end - first : kPanel;
      const Rows dq(span.dq, call.dq_type, first, call.heads * qk, head * qk);
      dq.visit([&](auto* to) { unpack_panel(Slot(call, space, i).dq, ones, rows, qk, to, dq.stride); });
    }
  }
}

template <class Mode, bool kQueries, bool kKeys>
void run_visit(const AttentionCall& call, const Visit& visit, float* space) {
  const AttentionGradArgs& g = *call.grad_args;
  const AttentionSpan& span = *visit.span;
  const int64_t qk = call.head_dim, vd = call.value_dim, kv_head = visit.head / (call.heads / call.kv_heads);
  const int64_t key_count = visit.keys.end - visit.keys.begin;
  const Rows dk(span.dk, call.dk_type, visit.keys.begin, call.kv_heads * qk, kv_head * qk);
  const Rows dv(span.dv, call.dv_type, visit.keys.begin, call.kv_heads * vd, kv_head * vd);
  float *dk_sums = space + call.space.dk, *dv_sums = space + call.space.dv;
  const auto start = [&](const Rows& rows, bool accumulate, int64_t cols, float* sums) {
    if (!accumulate) return clear(sums, key_count * row_of(cols));
    rows.visit([&](const auto* from) { widen_rows(from, rows.stride, key_count, cols, sums); });
  };
  if constexpr (kKeys) {
    start(dk, g.accumulate_dk, qk, dk_sums);
    start(dv, g.accumulate_dv, vd, dv_sums);
  }
  for (int64_t head = visit.head; head < visit.head_end; ++head)
    for (int64_t first = visit.queries.begin; first < visit.queries.end; first += kBlock)
      visit_block<Mode, kQueries, kKeys>(
          call, visit, head, {first, first + kBlock < visit.queries.end ? first + kBlock : visit.queries.end}, space);
  if constexpr (kKeys) {
    dk.visit([&](auto* to) { narrow_rows(dk_sums, key_count, qk, to, dk.stride); });
    dv.visit([&](auto* to) { narrow_rows(dv_sums, key_count, vd, to, dv.stride); });
  }
}

template <class Mode>
void run_task(const AttentionCall& call, const AttentionTask& task, float* space) {
  const AttentionSpan& span = call.spans[task.span];
  const int64_t group = call.heads / call.kv_heads;
  const Range all_queries{0, span.query_rows};
  if (task.kind == AttentionTask::query) {
    run_visit<Mode, true, false>(
        call, {&span, task.head, task.head + 1, {task.begin, task.end}, {0, span.key_rows}, false}, space);
  } else if (task.kind == AttentionTask::key) {
    run_visit<Mode, false, true>(
        call, {&span, task.head * group, (task.head + 1) * group, all_queries, {task.begin, task.end}, false}, space);
  } else {
    int64_t key = 0;
    do {
      const int64_t end = key + call.space.key_rows < span.key_rows ? key + call.space.key_rows : span.key_rows;
      run_visit<Mode, true, true>(
          call, {&span, task.head * group, (task.head + 1) * group, all_queries, {key, end}, key > 0}, space);
      key = end;
    } while (key < span.key_rows);
  }
}

template <class Mode>
void run(const AttentionCall& call) {
  parallel_items(call.parts, [&](int64_t part, int64_t thread) {
    [[maybe_unused]] const typename Mode::Dot::Session session{};
    for (int64_t t = call.first_task[part]; t < call.first_task[part + 1]; ++t)
      run_task<Mode>(call, call.tasks[t], call.space_of(part, thread));
  });
}

}  // namespace backward
}  // namespace lithe::kernels::cpu::LITHE_ISA
