// The gradient recomputes each tile of weights from q, k and lse; nothing of the size of the map is kept.
// dq of a query sums over tiles of keys in ascending order, dk and dv of a key over heads and panels of
// queries in ascending order, whichever tasks do it: a division of the work never changes a bit.
#include "lithe/kernels/cpu/attention_tiles.h"
#include "lithe/kernels/cpu/parallel.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

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
      : at(static_cast<char*>(base) + (row * stride + col) * (type == DType::f32 ? 4 : 2)), type(type), stride(stride) {}
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

/// A panel of queries as operands: transposed for the products over channels, as rows (two by two when
/// paired) for those over queries, with lse and delta = dout . out in lanes.
template <class Mode, bool kKeys>
void open_panel(const AttentionCall& call, const AttentionSpan& span, int64_t head, const Panel& panel, float* space) {
  using T = typename Mode::T;
  const AttentionSpace& at = call.space;
  const int64_t qk = call.head_dim, vd = call.value_dim, q_stride = call.heads * qk, o_stride = call.heads * vd;
  const T* q = static_cast<const T*>(span.q) + panel.first * q_stride + head * qk;
  const T* dout = static_cast<const T*>(span.dout) + panel.first * o_stride + head * vd;
  const T* out = static_cast<const T*>(span.out) + panel.first * o_stride + head * vd;
  if constexpr (Mode::Dot::kPairs) {
    pack_panel(reinterpret_cast<const float*>(q), q_stride / 2, panel.rows, qk / 2, space + at.q);
    pack_panel(reinterpret_cast<const float*>(dout), o_stride / 2, panel.rows, vd / 2, space + at.dout);
  } else {
    pack_panel(q, q_stride, panel.rows, qk, space + at.q);
    pack_panel(dout, o_stride, panel.rows, vd, space + at.dout);
  }
  if constexpr (kKeys) {
    const int64_t lines = Mode::Dot::kPairs ? (panel.rows + 1) / 2 : panel.rows, all = Mode::Dot::kPairs ? kPanel / 2 : kPanel;
    if constexpr (Mode::Dot::kPairs) {
      pair_rows(q, q_stride, panel.rows, qk, space + at.q_rows);
      pair_rows(dout, o_stride, panel.rows, vd, space + at.dout_rows);
    } else {
      widen_rows(q, q_stride, panel.rows, qk, space + at.q_rows);
      widen_rows(dout, o_stride, panel.rows, vd, space + at.dout_rows);
    }
    clear(space + at.q_rows + lines * row_of(qk), (all - lines) * row_of(qk));
    clear(space + at.dout_rows + lines * row_of(vd), (all - lines) * row_of(vd));
  }
  float *lse = space + at.stats, *delta = lse + kPanel;
  for (int64_t i = 0; i < kPanel; ++i) {
    const float l = i < panel.rows ? span.lse[(panel.first + i) * call.heads + head] : 0;
    // Of a row that sees nothing all logits are -inf; any finite lse makes its weights 0.
    lse[i] = l == kNone ? 0 : l;
    delta[i] = i < panel.rows ? sum(total(vd, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
      return load(dout + i * o_stride + c, lanes) * load(out + i * o_stride + c, lanes);
    })) : 0;
  }
}

/// From logits and dout . v to weights p = exp(scale logit - lse) and their logits' gradients
/// scale p (dout . v - delta), in place. When paired, both become bf16, two queries to a word, and
/// `by_keys` gets the gradients again, two keys to a word.
template <class Dot>
[[gnu::noinline]] void differentiate(float* p, float* dp, int64_t rows, float scale, const float* lse, const float* delta,
                                     [[maybe_unused]] float* by_keys) {
  if constexpr (Dot::kPairs) {
    const Vec l0 = load(lse), l1 = load(lse + kLanes), d0 = load(delta), d1 = load(delta + kLanes);
    Vec even[2] = {};
    for (int64_t j = 0; j < rows; ++j) {
      const Vec p0 = exp(load(p + j * kPanel) * scale - l0), p1 = exp(load(p + j * kPanel + kLanes) * scale - l1);
      const Vec s0 = p0 * (load(dp + j * kPanel) - d0) * scale, s1 = p1 * (load(dp + j * kPanel + kLanes) - d1) * scale;
      store(p + j * kLanes, Dot::follow(p0, p1));
      store(dp + j * kLanes, Dot::follow(s0, s1));
      if (j % 2) {
        store(by_keys + j / 2 * kPanel, Dot::join(even[0], s0));
        store(by_keys + j / 2 * kPanel + kLanes, Dot::join(even[1], s1));
      }
      even[0] = s0, even[1] = s1;
    }
    if (rows % 2) {
      store(by_keys + rows / 2 * kPanel, Dot::join(even[0], Vec{}));
      store(by_keys + rows / 2 * kPanel + kLanes, Dot::join(even[1], Vec{}));
    }
  } else {
    for (int lane = 0; lane < kPanel; lane += kLanes) {
      const Vec l = load(lse + lane), d = load(delta + lane);
      for (int64_t i = lane; i < rows * kPanel; i += kPanel) {
        const Vec weight = exp(load(p + i) * scale - l);
        store(p + i, weight);
        store(dp + i, weight * (load(dp + i) - d) * scale);
      }
    }
  }
}

/// One panel of queries against keys [begin, end), which lie in one tile.
template <class Mode, bool kQueries, bool kKeys>
void visit_tile(const AttentionCall& call, const Visit& visit, const Panel& panel, int64_t kv_head, Range keys, float* space) {
  using T = typename Mode::T;
  using Dot = typename Mode::Dot;
  const AttentionSpace& at = call.space;
  const AttentionSpan& span = *visit.span;
  const int64_t qk = call.head_dim, vd = call.value_dim, rows = keys.end - keys.begin, per = Dot::kPairs ? 2 : 1;
  const int64_t k_stride = call.kv_heads * qk, v_stride = call.kv_heads * vd;
  const T* k = static_cast<const T*>(span.k) + keys.begin * k_stride + kv_head * qk;
  const T* v = static_cast<const T*>(span.v) + keys.begin * v_stride + kv_head * vd;
  const float *k_in, *v_in, *k_over_keys;  // k_over_keys: for the product over keys
  int64_t k_in_stride, v_in_stride, k_over_stride;
  if constexpr (Dot::kPairs) {
    k_in = reinterpret_cast<const float*>(k), v_in = reinterpret_cast<const float*>(v);
    k_in_stride = k_stride / 2, v_in_stride = v_stride / 2;
    if constexpr (kQueries) pair_rows(k, k_stride, rows, qk, space + at.k);
    k_over_keys = space + at.k, k_over_stride = row_of(qk);
  } else if constexpr (sizeof(T) == sizeof(float)) {
    k_in = k_over_keys = k, v_in = v;
    k_in_stride = k_over_stride = k_stride, v_in_stride = v_stride;
  } else {
    widen_rows(k, k_stride, rows, qk, space + at.k);
    widen_rows(v, v_stride, rows, vd, space + at.v);
    k_in = k_over_keys = space + at.k, v_in = space + at.v;
    k_in_stride = k_over_stride = row_of(qk), v_in_stride = row_of(vd);
  }
  float *p = space + at.p, *dp = space + at.dp, *by_keys = Dot::kPairs ? dp + kKeyTile * kPanel : dp;
  multiply<Dot, Start::zero, Order::rows>(rows, kPanel, qk / per, k_in, k_in_stride, space + at.q, kPanel, p, kPanel);
  multiply<Dot, Start::zero, Order::rows>(rows, kPanel, vd / per, v_in, v_in_stride, space + at.dout, kPanel, dp, kPanel);
  if (!panel.all_see(keys)) hide(call, span, panel, keys, p);
  differentiate<Dot>(p, dp, rows, call.scale, space + at.stats, space + at.stats + kPanel, by_keys);
  if constexpr (kKeys) {
    const int64_t behind = keys.begin - visit.keys.begin;
    multiply<Dot, Start::add, Order::rows>(rows, row_of(vd), kPanel / per, p, kPanel / per, space + at.dout_rows, row_of(vd),
                                           space + at.dv + behind * row_of(vd), row_of(vd));
    multiply<Dot, Start::add, Order::rows>(rows, row_of(qk), kPanel / per, dp, kPanel / per, space + at.q_rows, row_of(qk),
                                           space + at.dk + behind * row_of(qk), row_of(qk));
  }
  if constexpr (kQueries)
    multiply<Dot, Start::add, Order::columns>(qk, kPanel, (rows + per - 1) / per, k_over_keys, k_over_stride, by_keys, kPanel, space + at.dq, kPanel);
}

template <class Mode, bool kQueries, bool kKeys>
void run_visit(const AttentionCall& call, const Visit& visit, float* space) {
  const AttentionSpace& at = call.space;
  const AttentionGradArgs& g = *call.grad_args;
  const AttentionSpan& span = *visit.span;
  const int64_t qk = call.head_dim, vd = call.value_dim, kv_head = visit.head / (call.heads / call.kv_heads);
  const int64_t key_count = visit.keys.end - visit.keys.begin;
  const Rows dk(span.dk, call.dk_type, visit.keys.begin, call.kv_heads * qk, kv_head * qk);
  const Rows dv(span.dv, call.dv_type, visit.keys.begin, call.kv_heads * vd, kv_head * vd);
  const auto open_rows = [&](const Rows& rows, bool accumulate, int64_t cols, float* sums) {
    if (!accumulate) return clear(sums, key_count * row_of(cols));
    rows.visit([&](const auto* from) { widen_rows(from, rows.stride, key_count, cols, sums); });
  };
  if constexpr (kKeys) {
    open_rows(dk, g.accumulate_dk, qk, space + at.dk);
    open_rows(dv, g.accumulate_dv, vd, space + at.dv);
  }
  for (int64_t head = visit.head; head < visit.head_end; ++head)
    for (int64_t first = visit.queries.begin; first < visit.queries.end; first += kPanel) {
      const Panel panel(call, span, first, visit.queries.end);
      Range seen = panel.seen();
      if (seen.begin < visit.keys.begin) seen.begin = visit.keys.begin;
      if (seen.end > visit.keys.end) seen.end = visit.keys.end;
      const Rows dq(span.dq, call.dq_type, first, call.heads * qk, head * qk);
      const bool add = visit.continues_dq || g.accumulate_dq;
      if (seen.begin >= seen.end && (add || !kQueries)) continue;
      if constexpr (kQueries) {
        if (add)
          dq.visit([&](const auto* from) { pack_panel(from, dq.stride, panel.rows, qk, space + at.dq); });
        else
          clear(space + at.dq, qk * kPanel);
      }
      if (seen.begin < seen.end) open_panel<Mode, kKeys>(call, span, head, panel, space);
      for (int64_t tile = seen.begin / kKeyTile * kKeyTile; tile < seen.end; tile += kKeyTile) {
        Range keys{tile > seen.begin ? tile : seen.begin, tile + kKeyTile < seen.end ? tile + kKeyTile : seen.end};
        visit_tile<Mode, kQueries, kKeys>(call, visit, panel, kv_head, keys, space);
      }
      if constexpr (kQueries) {
        float* ones = space + at.stats + 2 * kPanel;
        for (int i = 0; i < kPanel; i += kLanes) store(ones + i, splat(1));
        dq.visit([&](auto* to) { unpack_panel(space + at.dq, ones, panel.rows, qk, to, dq.stride); });
      }
    }
  if constexpr (kKeys) {
    dk.visit([&](auto* to) { narrow_rows(space + at.dk, key_count, qk, to, dk.stride); });
    dv.visit([&](auto* to) { narrow_rows(space + at.dv, key_count, vd, to, dv.stride); });
  }
}

template <class Mode>
void run_task(const AttentionCall& call, const AttentionTask& task, float* space) {
  const AttentionSpan& span = call.spans[task.span];
  const int64_t group = call.heads / call.kv_heads;
  const Range all_queries{0, span.query_rows};
  if (task.kind == AttentionTask::query) {
    run_visit<Mode, true, false>(call, {&span, task.head, task.head + 1, {task.begin, task.end}, {0, span.key_rows}, false}, space);
  } else if (task.kind == AttentionTask::key) {
    run_visit<Mode, false, true>(call, {&span, task.head * group, (task.head + 1) * group, all_queries, {task.begin, task.end}, false}, space);
  } else {
    int64_t key = 0;
    do {
      const int64_t end = key + call.space.key_rows < span.key_rows ? key + call.space.key_rows : span.key_rows;
      run_visit<Mode, true, true>(call, {&span, task.head * group, (task.head + 1) * group, all_queries, {key, end}, key > 0}, space);
      key = end;
    } while (key < span.key_rows);
  }
}

template <class Mode>
void run(const AttentionCall& call) {
  parallel(call.parts, 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t part = begin; part < end; ++part)
      for (int64_t t = call.first_task[part]; t < call.first_task[part + 1]; ++t)
        run_task<Mode>(call, call.tasks[t], call.workspace + part * call.space.floats);
  });
}

}  // namespace

void attention_backward(const AttentionCall& call) {
  if (call.dtype == DType::f32) return run<Floats>(call);
#if defined(__AVX512BF16__)
  if (call.head_dim % 2 == 0 && call.value_dim % 2 == 0) return run<Paired>(call);
#endif
  run<Widened>(call);
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
