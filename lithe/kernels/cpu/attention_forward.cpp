// spec: hpc.flash | kernel | tiles with a running maximum and sum; the map is never stored | TB 6.4.9
#include "lithe/kernels/cpu/attention_tiles.h"
#include "lithe/kernels/cpu/parallel.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

/// Keys [begin, end) of a tile as operands.
struct KeyTile {
  Range keys;
  const float *k, *v;
  int64_t k_stride, v_stride;
};

/// Asks for rows [key, end) of one head, `size` bytes each.
[[gnu::always_inline]] inline void fetch_rows(const AttentionRows& from, int64_t key, int64_t end, int64_t head,
                                              int64_t heads, int64_t size) {
  const char* row = row_at<char>(from, key, heads * size) + head * size;
  for (; key < end; ++key, row += heads * size)
    for (int64_t byte = 0; byte < size; byte += 64) __builtin_prefetch(row + byte, 0, 2);
}

/// Asks for the keys and values of the tile at `key`.
[[gnu::always_inline]] inline void fetch_tile(const AttentionCall& call, const AttentionSpan& span, int64_t kv_head,
                                              int64_t key) {
  if (key >= span.key_rows) return;
  const int64_t end = key + kKeyTile < span.key_rows ? key + kKeyTile : span.key_rows,
                item = call.key_dtype == DType::f32    ? 4
                       : call.key_dtype == DType::bf16 ? 2
                                                       : 1;
  fetch_rows(span.keys, key, end, kv_head, call.kv_heads, call.head_dim * item);
  fetch_rows(span.values, key, end, kv_head, call.kv_heads, call.value_dim * item);
}

/// Rows of one head as f32, whatever they are.
[[gnu::noinline]] void widen_tile(const AttentionCall& call, const AttentionRows& from, Range keys, int64_t head,
                                  int64_t size, float* to) {
  const int64_t stride = call.kv_heads * size, rows = keys.end - keys.begin;
  if (call.key_dtype == DType::f32)
    widen_rows(row_at<float>(from, keys.begin, stride) + head * size, stride, rows, size, to);
  else if (call.key_dtype == DType::bf16)
    widen_rows(row_at<bf16>(from, keys.begin, stride) + head * size, stride, rows, size, to);
  else
    widen_rows(row_at<int8_t>(from, keys.begin, stride) + head * size, stride,
               scale_at(from, keys.begin, call.kv_heads) + head, call.kv_heads, rows, size, to);
}

template <class Mode>
[[gnu::always_inline]] inline KeyTile open_tile(const AttentionCall& call, const AttentionSpan& span, int64_t kv_head,
                                                Range keys, float* space) {
  using T = typename Mode::T;
  float *k_space = space + call.space.k, *v_space = space + call.space.v;
  fetch_tile(call, span, kv_head, keys.end);  // the next one
  if constexpr (std::is_same_v<Mode, Widened<T>>) {
    widen_tile(call, span.keys, keys, kv_head, call.head_dim, k_space);
    widen_tile(call, span.values, keys, kv_head, call.value_dim, v_space);
    return {keys, k_space, v_space, row_of(call.head_dim), row_of(call.value_dim)};
  } else {
    const int64_t k_stride = call.kv_heads * call.head_dim, v_stride = call.kv_heads * call.value_dim,
                  rows = keys.end - keys.begin;
    const T* k = row_at<T>(span.keys, keys.begin, k_stride) + kv_head * call.head_dim;
    const T* v = row_at<T>(span.values, keys.begin, v_stride) + kv_head * call.value_dim;
    if constexpr (Mode::Dot::kPairs) {
      pair_rows(v, v_stride, rows, call.value_dim, v_space);
      return {keys, reinterpret_cast<const float*>(k), v_space, k_stride / 2, row_of(call.value_dim)};
    } else {
      widen_rows(v, v_stride, rows, call.value_dim, v_space);
      return {keys, k, v_space, k_stride, row_of(call.value_dim)};
    }
  }
}

/// Queries [begin, end) of one head, at most kBlock of them.
template <class Mode>
void forward_block(const AttentionCall& call, const AttentionTask& task, float* space) {
  using T = typename Mode::T;
  using Dot = typename Mode::Dot;
  const AttentionSpan& span = call.spans[task.span];
  const int64_t qk = call.head_dim, vd = call.value_dim, kv_head = task.head / (call.heads / call.kv_heads);
  const int64_t q_stride = call.heads * qk, out_stride = call.heads * vd, depth = Mode::Dot::kPairs ? qk / 2 : qk;
  float *packed = space + call.space.q, *sums = space + call.space.out, *logits = space + call.space.p;
  float *maximum = space + call.space.stats, *sum = maximum + kBlock, *factor = sum + kBlock;

  Range seen{span.key_rows, 0};
  for (int64_t first = task.begin, at = 0; first < task.end; first += kPanel, ++at) {
    const Panel panel(call, span, first, task.end);
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
    const Range of_panel = panel.seen();
    seen.begin = of_panel.begin < seen.begin ? of_panel.begin : seen.begin;
    seen.end = of_panel.end > seen.end ? of_panel.end : seen.end;
  }

  for (int64_t key = seen.begin / kKeyTile * kKeyTile; key < seen.end; key += kKeyTile) {
    const int64_t stop = key + kKeyTile < seen.end ? key + kKeyTile : seen.end;
    const KeyTile tile = open_tile<Mode>(call, span, kv_head, {key, stop}, space);
    for (int64_t first = task.begin, at = 0; first < task.end; first += kPanel, ++at) {
      const Panel panel(call, span, first, task.end);
      const Range of_panel = panel.seen();
      Range keys{of_panel.begin > key ? of_panel.begin : key, of_panel.end < stop ? of_panel.end : stop};
      if constexpr (Mode::Dot::kPairs) keys.begin -= keys.begin & 1;  // pairs start at even keys
      const int64_t rows = keys.end - keys.begin, skip = keys.begin - key;
      if (rows <= 0) continue;
      multiply<Dot, Start::zero, Order::rows>(rows, kPanel, depth, tile.k + skip * tile.k_stride, tile.k_stride,
                                              packed + at * depth * kPanel, kPanel, logits, kPanel);
      if (!panel.all_see(keys)) hide(call, span, panel, keys, logits);
      soften<Dot>(logits, kPanel, kPanel, rows, call.scale * kLog2E, maximum + at * kPanel, sum + at * kPanel, factor);
      const int64_t steps = Mode::Dot::kPairs ? (rows + 1) / 2 : rows, behind = Mode::Dot::kPairs ? skip / 2 : skip;
      multiply<Dot, Start::scale, Order::columns>(vd, kPanel, steps, tile.v + behind * tile.v_stride, tile.v_stride,
                                                  logits, kPanel, sums + at * vd * kPanel, kPanel, factor);
    }
  }

  for (int64_t first = task.begin, at = 0; first < task.end; first += kPanel, ++at) {
    const Panel panel(call, span, first, task.end);
    const float *l = sum + at * kPanel, *m = maximum + at * kPanel;
    for (int i = 0; i < kPanel; i += kLanes) {
      const Vec total = load(l + i);
      store(factor + i, total == 0.0f ? Vec{} : 1.0f / total);
    }
    T* out = static_cast<T*>(span.out) + first * out_stride + task.head * vd;
    unpack_panel(sums + at * vd * kPanel, factor, panel.rows, vd, out, out_stride);
    if (span.lse)
      for (int64_t i = 0; i < panel.rows; ++i)
        span.lse[(first + i) * call.heads + task.head] = m[i] * kLn2 + __builtin_logf(l[i]);
  }
}

template <class Mode>
void run(const AttentionCall& call) {
  parallel(call.parts, 1, [&](int64_t begin, int64_t end, int64_t) {
    for (int64_t part = begin; part < end; ++part)
      for (int64_t t = call.first_task[part]; t < call.first_task[part + 1]; ++t) {
        const AttentionTask& task = call.tasks[t];
        float* space = call.workspace + part * call.space.floats;
        if (task.kind == AttentionTask::decode)
          attention_decode(call, task, space);
        else
          forward_block<Mode>(call, task, space);
      }
  });
  attention_decode_finish(call);
}

}  // namespace

void attention_forward(const AttentionCall& call) {
  if (call.dtype == DType::f32) return call.key_dtype == DType::f32 ? run<Floats>(call) : run<Widened<float>>(call);
#if defined(__AVX512BF16__)
  if (call.key_dtype == DType::bf16 && call.head_dim % 2 == 0) return run<Paired>(call);
#endif
  run<Widened<bf16>>(call);
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
