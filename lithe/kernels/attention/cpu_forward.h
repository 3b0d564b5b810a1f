// The forward pass by tiles of queries and keys, in one form for each way to multiply (Mode).
#pragma once

#include "lithe/kernels/attention/cpu_bias.h"
#include "lithe/kernels/attention/cpu_cap.h"
#include "lithe/kernels/attention/cpu_turn.h"
#include "lithe/kernels/cpu/parallel.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace forward {

/// Bytes of `size` numbers of a head.
[[gnu::always_inline]] inline int64_t bytes_of_keys(const AttentionCall& call, int64_t size) {
  if (call.key_dtype == DType::u8) return Int4Rows{1, size}.bytes();
  return size * (call.key_dtype == DType::f32 ? 4 : call.key_dtype == DType::bf16 ? 2 : 1);
}

/// Keys [begin, end) of a tile as operands.
struct KeyTile {
  Range keys;
  const float *k, *v;
  int64_t k_stride, v_stride;
};

/// Rows of one head from `key` on, to the end of their tile.
[[gnu::always_inline]] inline Stream tile_rows(const AttentionCall& call, const AttentionSpan& span,
                                               const AttentionRows& from, int64_t key, int64_t head, int64_t cols) {
  if (key >= span.key_rows) return {};
  const int64_t rest = span.key_rows - key, size = bytes_of_keys(call, cols), stride = call.kv_heads * size;
  return {row_at<char>(from, key, stride) + head * size, stride, size, rest < kKeyTile ? rest : kKeyTile};
}

/// What is read next, asked for a few rows at a time: the keys and values of a tile, and the queries of a task.
struct Ahead {
  Stream keys, values, queries;

  [[gnu::always_inline]] void turn_to(const AttentionCall& call, const AttentionTask& task, int64_t key) {
    const AttentionSpan& span = call.spans[task.span];
    const int64_t kv_head = task.head / (call.heads / call.kv_heads);
    keys = tile_rows(call, span, span.keys, key, kv_head, call.head_dim);
    values = tile_rows(call, span, span.values, key, kv_head, call.value_dim);
  }
  [[gnu::always_inline]] void ask(int64_t key_rows, int64_t query_rows) {
    keys.ask(key_rows);
    values.ask(key_rows);
    queries.ask(query_rows);
  }
};

/// Rows of one head as f32, whatever they are.
[[gnu::noinline]] inline void widen_tile(const AttentionCall& call, const AttentionRows& from, Range keys, int64_t head,
                                         int64_t size, float* to) {
  const int64_t stride = call.kv_heads * size, rows = keys.end - keys.begin;
  if (call.key_dtype == DType::f32)
    widen_rows(row_at<float>(from, keys.begin, stride) + head * size, stride, rows, size, to);
  else if (call.key_dtype == DType::bf16)
    widen_rows(row_at<bf16>(from, keys.begin, stride) + head * size, stride, rows, size, to);
  else if (call.key_dtype == DType::u8)
    widen_int4_rows(from, keys.begin, rows, call.kv_heads, head, size, to);
  else
    widen_rows(row_at<int8_t>(from, keys.begin, stride) + head * size, stride,
               scale_at(from, keys.begin, call.kv_heads) + head, call.kv_heads, rows, size, to);
}

/// Widened keys of one head, turned where they are.
[[gnu::noinline]] inline void turn_tile(const AttentionCall& call, const AttentionSpan& span, Range keys, float* k,
                                        float* space) {
  const TurningKeys turning(call, span, keys.begin, space);
  for (int64_t j = 0; j < keys.end - keys.begin; ++j, k += row_of(call.head_dim))
    turning.read<float>(k, nullptr, 1, j, k, 0);
}

template <class Mode>
[[gnu::always_inline]] inline KeyTile open_tile(const AttentionCall& call, const AttentionSpan& span, int64_t kv_head,
                                                Range keys, float* space) {
  using T = typename Mode::T;
  float *k_space = space + call.space.k, *v_space = space + call.space.v;
  if constexpr (std::is_same_v<Mode, Widened<T>>) {
    widen_tile(call, span.keys, keys, kv_head, call.head_dim, k_space);
    widen_tile(call, span.values, keys, kv_head, call.value_dim, v_space);
    if (call.turn.frequencies) turn_tile(call, span, keys, k_space, space);
    return {keys, k_space, v_space, row_of(call.head_dim), row_of(call.value_dim)};
  } else {
    const int64_t k_stride = call.kv_heads * call.head_dim, v_stride = call.kv_heads * call.value_dim,
                  rows = keys.end - keys.begin;
    const T* k = row_at<T>(span.keys, keys.begin, k_stride) + kv_head * call.head_dim;
    const T* v = row_at<T>(span.values, keys.begin, v_stride) + kv_head * call.value_dim;
    constexpr typename Mode::Dot kDot;
    const int64_t over = stride_over_keys(kDot, kKeyTile, call.value_dim);
    lay_over_keys(kDot, v, v_stride, rows, call.value_dim, kKeyTile, v_space);
    if constexpr (Mode::Dot::kPairs)
      return {keys, reinterpret_cast<const float*>(k), v_space, k_stride / 2, over};
    else
      return {keys, k, v_space, k_stride, over};
  }
}

/// All keys that queries of the task see.
[[gnu::always_inline]] inline Range seen_by(const AttentionCall& call, const AttentionTask& task) {
  const AttentionSpan& span = call.spans[task.span];
  const AttentionMask& mask = mask_of(call, task.head);
  return {visible_keys(mask, span, task.begin).begin, visible_keys(mask, span, task.end - 1).end};
}

/// Queries [begin, end) of one head, at most kLongBlock of them. `next`: the task that follows, or null.
template <class Mode>
void forward_block(const AttentionCall& call, const AttentionTask& task, const AttentionTask* next, float* space) {
  using T = typename Mode::T;
  using Dot = typename Mode::Dot;
  const AttentionSpan& span = call.spans[task.span];
  const int64_t qk = call.head_dim, vd = call.value_dim, kv_head = task.head / (call.heads / call.kv_heads);
  const int64_t q_stride = call.heads * qk, out_stride = call.heads * vd, depth = Mode::Dot::kPairs ? qk / 2 : qk;
  float *packed = space + call.space.q, *sums = space + call.space.out, *logits = space + call.space.p;
  float *maximum = space + call.space.stats, *sum = maximum + kLongBlock, *factor = sum + kLongBlock;
  const auto shares_of = [&](const Panel& panel, int64_t at) __attribute__((always_inline)) {
    return Shares(call, span, task.head, panel, space + call.space.shares + at * 3 * kPanel);
  };

  for (int64_t first = task.begin, at = 0; first < task.end; first += kPanel, ++at) {
    const Panel panel(call, span, task.head, first, task.end);
    const T* q = static_cast<const T*>(span.q) + first * q_stride + task.head * qk;
    if constexpr (Mode::Dot::kPairs)
      pack_panel(reinterpret_cast<const float*>(q), q_stride / 2, panel.rows, depth, packed + at * depth * kPanel);
    else
      pack_panel(q, q_stride, panel.rows, depth, packed + at * depth * kPanel);
    for (int64_t i = 0; i < vd * kPanel; i += kLanes) store(sums + at * vd * kPanel + i, Vec{});
    for (int i = 0; i < kPanel; i += kLanes) {
      store(maximum + at * kPanel + i, splat(kNone));
      store(sum + at * kPanel + i, Vec{});
    }
    if (call.extras.shares) shares_of(panel, at).start();
  }

  const Range seen = seen_by(call, task);
  const int64_t start = seen.begin / kKeyTile * kKeyTile, panels = (task.end - task.begin + kPanel - 1) / kPanel,
                visits = (seen.end - start + kKeyTile - 1) / kKeyTile * panels;
  Ahead ahead;
  int64_t query_rows = 0;
  if (next && visits > 0) {
    const int64_t size = qk * int64_t(sizeof(T)), stride = q_stride * int64_t(sizeof(T));
    ahead.queries = {static_cast<const char*>(call.spans[next->span].q) + next->begin * stride + next->head * size,
                     stride, size, next->end - next->begin};
    query_rows = (ahead.queries.rows + visits - 1) / visits;
  }
  Route route(call, span, task.head, {task.begin, task.end});
  for (int64_t key = route.seek(start, seen.end), following; key < seen.end; key = following) {
    const int64_t stop = key + kKeyTile < seen.end ? key + kKeyTile : seen.end;
    const KeyTile tile = open_tile<Mode>(call, span, kv_head, {key, stop}, space);
    const Route here = route;
    following = stop < seen.end ? route.seek(stop, seen.end) : stop;
    if (following < seen.end)
      ahead.turn_to(call, task, following);
    else if (next)
      ahead.turn_to(call, *next, seen_by(call, *next).begin / kKeyTile * kKeyTile);
    for (int64_t first = task.begin, at = 0; first < task.end; first += kPanel, ++at) {
      const Panel panel(call, span, task.head, first, task.end);
      const Range of_panel = panel.seen();
      ahead.ask((kKeyTile + panels - 1) / panels, query_rows);
      Range keys{of_panel.begin > key ? of_panel.begin : key, of_panel.end < stop ? of_panel.end : stop};
      if constexpr (Mode::Dot::kPairs) keys.begin -= keys.begin & 1;  // pairs start at even keys
      const uint32_t* rule;
      if (keys.begin >= keys.end || !here.meets(at, key, rule)) continue;
      if (of_panel.end <= stop) {
        const int64_t size = vd * int64_t(sizeof(T)), stride = out_stride * int64_t(sizeof(T));
        Stream out{static_cast<const char*>(span.out) + first * stride + task.head * size, stride, size, panel.rows};
        out.ask<true>(panel.rows);
      }
      const int64_t rows = keys.end - keys.begin, low = panel.low(keys), skip = keys.begin - key,
                    per = Dot::kPairs ? 2 : 1, steps = (rows + per - 1) / per, low_steps = (low + per - 1) / per;
      float *of_sums = sums + at * vd * kPanel, *most = maximum + at * kPanel, *total = sum + at * kPanel;
      multiply_keys(Dot{}, rows, low, depth, tile.k + skip * tile.k_stride, tile.k_stride, packed + at * depth * kPanel,
                    logits);
      if (call.softcap != 0) cap_logits(call, rows * kPanel, logits, nullptr);
      if (call.extras.pairs_multiply && has_pairs(call, task.head))
        apply_pairs<true>(call, span, panel, keys, logits, nullptr, false);
      if (call.extras.bias) add_bias(call, span, task.head, panel, keys, 1 / call.scale, logits);
      if (!panel.all_see(keys)) hide(span, panel, keys, logits);
      if (rule) hide_by_rule(rule, skip, rows, logits);
      const float scale = call.scale * kLog2E, *values = over_keys(Dot{}, tile.v, tile.v_stride, skip);
      float of_weights[kKeyTile * kPanel];
      Numbers by;
      if (call.extras.multiplies) by = multipliers_of(call, span, task.head, panel, keys, of_weights);
      if (low == rows) {
        soften<Dot>(logits, kPanel, kPanel, rows, scale, most, total, factor, by);
      } else {
        soften<Dot>(logits, kPanel, kHalf, low, scale, most, total, factor, by);
        soften<Dot>(logits + kHalf, kPanel, kHalf, rows, scale, most + kHalf, total + kHalf, factor + kHalf,
                    by.behind(kHalf));
      }
      if (call.extras.shares) {
        float weights[kKeyTile * kPanel];
        unpack_weights<Dot>(logits, rows, low, weights);
        shares_of(panel, at).add(weights, keys.begin, rows, most, factor);
      }
      sum_over_keys<Start::scale>(Dot{}, vd, low_steps, steps, values, tile.v_stride, logits, of_sums, factor);
    }
  }

  for (int64_t first = task.begin, at = 0; first < task.end; first += kPanel, ++at) {
    const Panel panel(call, span, task.head, first, task.end);
    const float *l = sum + at * kPanel, *m = maximum + at * kPanel;
    for (int i = 0; i < kPanel; i += kLanes) {
      const Vec total = load(l + i);
      store(factor + i, total == 0.0f ? Vec{} : 1.0f / total);
    }
    if (call.extras.shares) shares_of(panel, at).finish(m, factor);
    T* out = static_cast<T*>(span.out) + first * out_stride + task.head * vd;
    unpack_panel(sums + at * vd * kPanel, factor, panel.rows, vd, out, out_stride);
    if (span.lse)
      for (int64_t i = 0; i < panel.rows; ++i)
        span.lse[(first + i) * call.heads + task.head] = m[i] * kLn2 + __builtin_logf(l[i]);
  }
}

template <class Mode>
void run(const AttentionCall& call) {
  parallel_items(call.parts, [&](int64_t part, int64_t thread) {
    [[maybe_unused]] const typename Mode::Dot::Session session{};
    float* space = call.space_of(part, thread);
    if (call.turn.frequencies) TurningKeys::prepare(call, space);
    for (int64_t t = call.first_task[part]; t < call.first_task[part + 1]; ++t) {
      const AttentionTask &task = call.tasks[t],
                          *next = t + 1 < call.first_task[part + 1] ? &call.tasks[t + 1] : nullptr;
      if (task.kind == AttentionTask::decode) {
        if constexpr (Mode::kDecodes) attention_decode(call, task, space);
      } else if (!call.only_decodes) {
        forward_block<Mode>(call, task, next && next->kind == task.kind ? next : nullptr, space);
      }
    }
  });
  if constexpr (Mode::kDecodes) attention_decode_finish(call);
}

}  // namespace forward
}  // namespace lithe::kernels::cpu::LITHE_ISA
