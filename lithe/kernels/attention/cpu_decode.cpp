// Few queries, many keys: bound by reading keys and values once, so that whole rows of them (all heads)
// stream by. The query vectors of all heads stand in lanes: vector e is query e % query_rows of head
// e / query_rows, so those of one key/value head are neighbours.
#include "lithe/kernels/attention/cpu_bias.h"
#include "lithe/kernels/attention/cpu_cap.h"
#include "lithe/kernels/attention/cpu_decode_rows.h"

namespace lithe::kernels::cpu::LITHE_ISA {
namespace {

/// Sums over splits: maximum [lanes], sum [lanes], values [lanes][row].
struct State {
  float *maximum, *sum, *values;
  [[gnu::always_inline]] State(const AttentionSpace& s, float* at)
      : maximum(at), sum(at + s.lanes), values(at + 2 * s.lanes) {}
};

/// lane i = the sum of the lanes of r[i].
[[gnu::always_inline]] inline Vec sums(Vec (&r)[kLanes]) {
  using All = typename IndicesTo<kLanes>::Type;
#pragma GCC unroll 4
  for (int half = kLanes / 2; half >= 1; half /= 2)
#pragma GCC unroll 16
    for (int i = 0; i < half; ++i)
      r[i] = interleave<0>(r[i], r[i + half], All{}) + interleave<kLanes / 2>(r[i], r[i + half], All{});
  return r[0];
}

/// One row of logits: vectors [count][width] (width rounded up, zeros behind head_dim) times a row of keys.
template <class T>
[[gnu::always_inline]] inline void dot_row(const T* k, const float* scales, int64_t kv_heads, int64_t head_dim,
                                           int64_t of_head, const float* vectors, int64_t width, float* logits) {
  Vec r[kLanes];
  int64_t e = 0;
  for (int64_t kv = 0; kv < kv_heads; ++kv, k += head_dim)
    for (int64_t i = 0; i < of_head; ++i, ++e) {
      const float* q = vectors + e * width;
      Vec dot{};
      each(
          head_dim, [&](int64_t c, auto lanes)
                        __attribute__((always_inline)) { dot += load(k + c, lanes) * load(q + c); });
      if constexpr (sizeof(T) == 1) dot *= scales[kv];
      r[e % kLanes] = dot;
      if (e % kLanes == kLanes - 1) store(logits + e - (kLanes - 1), sums(r));
    }
  if (const int64_t rest = e % kLanes) {
#pragma GCC unroll 16
    for (int64_t i = 0; i < kLanes; ++i)
      if (i >= rest) r[i] = Vec{};
    store(logits + e / kLanes * kLanes, sums(r));
  }
}

/// The same of kLanes / kHeads rows, for kHeads heads of one query each.
template <int kHeads, class T>
[[gnu::always_inline]] inline void dot_heads(const T* k, int64_t k_stride, const float* scales, int64_t head_dim,
                                             const float* vectors, int64_t width, float* logits, int64_t stride) {
  constexpr int kRows = kLanes / kHeads;
  Vec r[kLanes];
#pragma GCC unroll 16
  for (int kv = 0; kv < kHeads; ++kv, k += head_dim, vectors += width) {
    Vec dot[kRows] = {};
    each(
        head_dim, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
          const Vec x = load(vectors + c);
#pragma GCC unroll 16
          for (int u = 0; u < kRows; ++u) dot[u] += load(k + u * k_stride + c, lanes) * x;
        });
#pragma GCC unroll 16
    for (int u = 0; u < kRows; ++u) {
      if constexpr (sizeof(T) == 1) dot[u] *= scales[u * kHeads + kv];
      r[u * kHeads + kv] = dot[u];
    }
  }
  float all[kLanes];
  store(all, sums(r));
#pragma GCC unroll 16
  for (int u = 0; u < kRows; ++u) __builtin_memcpy(logits + u * stride, all + u * kHeads, kHeads * sizeof(float));
}

/// kLanes / kQueries rows of logits of a group of kQueries or more: each number of the keys is made f32 once for so
/// many queries. Every logit is the sum that dot_row makes. ahead: see fetch_behind().
template <int kQueries, class T>
[[gnu::always_inline]] inline void dot_group(const T* k, int64_t k_stride, const float* scales, int64_t kv_heads,
                                             int64_t head_dim, int64_t of_head, const float* vectors, int64_t width,
                                             float* logits, int64_t stride, int64_t ahead) {
  constexpr int kRows = kLanes / kQueries;
  for (int64_t kv = 0; kv < kv_heads; ++kv, k += head_dim)
    for (int64_t next = 0; next < of_head; next += kQueries) {
      // The last queries of the group may be those before again.
      const int64_t e = kv * of_head + (next + kQueries <= of_head ? next : of_head - kQueries);
      const float* q = vectors + e * width;
      Vec r[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) r[i] = Vec{};
      each(
          head_dim, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
            if (!next) fetch_behind<kRows>(k, k_stride, c, ahead);
            Vec row[kRows];
#pragma GCC unroll 16
            for (int u = 0; u < kRows; ++u) row[u] = load(k + u * k_stride + c, lanes);
#pragma GCC unroll 16
            for (int i = 0; i < kQueries; ++i) {
              const Vec x = load(q + i * width + c);
#pragma GCC unroll 16
              for (int u = 0; u < kRows; ++u) r[u * kQueries + i] += row[u] * x;
            }
          });
      if constexpr (sizeof(T) == 1)
#pragma GCC unroll 16
        for (int u = 0; u < kRows; ++u)
#pragma GCC unroll 16
          for (int i = 0; i < kQueries; ++i) r[u * kQueries + i] *= scales[u * kv_heads + kv];
      float all[kLanes];
      store(all, sums(r));
#pragma GCC unroll 16
      for (int u = 0; u < kRows; ++u)
        __builtin_memcpy(logits + u * stride + e, all + u * kQueries, kQueries * sizeof(float));
    }
}

/// values[e] += sum over kRows rows of weight[row][e] v[row]
template <int kRows, class T>
[[gnu::always_inline]] inline void add_rows(const T* v, int64_t v_stride, const float* scales, int64_t kv_heads,
                                            int64_t value_dim, int64_t of_head, const float* weights, int64_t stride,
                                            float* values, int64_t row) {
  for (int64_t kv = 0; kv < kv_heads; ++kv, v += value_dim)
    for (int64_t i = 0; i < of_head; ++i, ++weights, values += row) {
      Vec p[kRows];
#pragma GCC unroll 4
      for (int u = 0; u < kRows; ++u)
        p[u] = splat(sizeof(T) == 1 ? weights[u * stride] * scales[u * kv_heads + kv] : weights[u * stride]);
      each(
          value_dim, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
            Vec sum = load(values + c);
#pragma GCC unroll 4
            for (int u = 0; u < kRows; ++u) sum += p[u] * load(v + u * v_stride + c, lanes);
            store(values + c, sum);
          });
    }
}

/// The same for a group of queries, where each number of the values is made f32 once. Scales go into the weights.
/// ahead: see fetch_behind().
template <int kRows, class T>
[[gnu::always_inline]] inline void add_group(const T* v, int64_t v_stride, const float* scales, int64_t kv_heads,
                                             int64_t value_dim, int64_t of_head, float* weights, int64_t stride,
                                             float* values, int64_t row, int64_t ahead) {
  for (int64_t kv = 0; kv < kv_heads; ++kv, v += value_dim, weights += of_head, values += of_head * row) {
    if constexpr (sizeof(T) == 1)
      for (int u = 0; u < kRows; ++u)
        each(
            of_head, [&](int64_t i, auto lanes) __attribute__((always_inline)) {
              float* w = weights + u * stride + i;
              store(w, load(w, lanes) * scales[u * kv_heads + kv], lanes);
            });
    each(
        value_dim, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
          fetch_behind<kRows>(v, v_stride, c, ahead);
          Vec x[kRows];
#pragma GCC unroll 8
          for (int u = 0; u < kRows; ++u) x[u] = load(v + u * v_stride + c, lanes);
          for (int64_t i = 0; i < of_head; ++i) {
            Vec sum = load(values + i * row + c);
#pragma GCC unroll 8
            for (int u = 0; u < kRows; ++u) sum += splat(weights[u * stride + i]) * x[u];
            store(values + i * row + c, sum);
          }
        });
  }
}

/// All logits of the tile's rows; the queries of a group together from kQueries on.
template <int kQueries, class Keys, class T>
[[gnu::noinline]] void dot_tile(const AttentionCall& call, const TileRows<T>& k, const Keys& keys, int64_t rows,
                                int64_t of_head, const float* vectors, int64_t width, float* logits) {
  constexpr int kRows = kLanes / kQueries;
  const int64_t kv_heads = call.kv_heads, head_dim = call.head_dim, stride = kv_heads * head_dim,
                lanes = call.space.lanes;
  int64_t j = 0;
  const auto dot = [&]<int kHeads>() __attribute__((always_inline)) {
    constexpr int kTogether = kLanes / kHeads;
    for (; kv_heads == kHeads && j + kTogether <= rows; j += kTogether) {
      k.fetch_ahead(j, kTogether);
      dot_heads<kHeads>(keys.rows(j, kTogether), stride, keys.scales(j), head_dim, vectors, width, logits + j * lanes,
                        lanes);
    }
  };
  if constexpr (kQueries == 1) {
    dot.template operator()<kLanes / 2>();
    dot.template operator()<kLanes / 4>();
  } else {
    for (; j + kRows <= rows; j += kRows) {
      if (!Keys::kInPlace) k.fetch_ahead(j, kRows);
      dot_group<kQueries>(keys.rows(j, kRows), stride, keys.scales(j), kv_heads, head_dim, of_head, vectors, width,
                          logits + j * lanes, lanes, Keys::kInPlace ? k.ahead_of(j) : 0);
    }
  }
  for (; j < rows; ++j) {
    k.fetch_ahead(j, 1);
    dot_row(keys.rows(j, 1), keys.scales(j), kv_heads, head_dim, of_head, vectors, width, logits + j * lanes);
  }
}

/// values[e] += the weighted rows of the tile.
template <class T>
[[gnu::noinline]] void add_tile(const AttentionCall& call, const TileRows<T>& v, int64_t rows, int64_t of_head,
                                float* weights, float* values, [[maybe_unused]] float* widened) {
  const int64_t kv_heads = call.kv_heads, value_dim = call.value_dim, stride = kv_heads * value_dim,
                lanes = call.space.lanes, row = call.space.row;
  const bool in_place = !TileRows<T>::kInt4 && !v.again;
  int64_t j = 0;
  const auto add = [&]<int kRows, bool kGroup>() __attribute__((always_inline)) {
    const auto add_from = [&](const auto* from, const float* scales) __attribute__((always_inline)) {
      if constexpr (kGroup)
        add_group<kRows>(from, stride, scales, kv_heads, value_dim, of_head, weights + j * lanes, lanes, values, row,
                         in_place ? v.ahead_of(j) : 0);
      else
        add_rows<kRows>(from, stride, scales, kv_heads, value_dim, of_head, weights + j * lanes, lanes, values, row);
    };
    for (; j + kRows <= rows; j += kRows) {
      if (!kGroup || !in_place) v.fetch_ahead(j, kRows);
      if constexpr (TileRows<T>::kInt4) {
        widen_rows(v, j, kRows, kv_heads, value_dim, widened);
        add_from(static_cast<const float*>(widened), nullptr);
      } else {
        add_from(v.rows + j * stride, v.scales_of(j));
      }
    }
  };
  if (of_head > 1) add.template operator()<8, true>();
  add.template operator()<4, false>();
  add.template operator()<1, false>();
}

/// Logits of keys that a query does not see become -infinity.
void hide_rows(const AttentionCall& call, const AttentionSpan& span, int64_t count, Range keys, float* logits) {
  for (int64_t e = 0; e < count; ++e) {
    const Range seen = visible_keys(mask_of(call, e / span.query_rows), span, e % span.query_rows);
    for (int64_t j = keys.begin; j < keys.end; ++j)
      if (j < seen.begin || j >= seen.end) logits[(j - keys.begin) * call.space.lanes + e] = kNone;
  }
}

/// Which visit of a span and head is to the tile of `key`: -1 where it is none, -2 where all tiles are visited. All
/// queries are of the first tile.
int64_t visit_of(const AttentionCall& call, const AttentionSpan& span, int64_t head, int64_t key) {
  const AttentionVisits& v = call.visits[(&span - call.spans) * call.heads + head];
  if (!v.first) return -2;
  const auto tile = int32_t(key / kKeyTile);
  int32_t begin = v.first[0], end = v.first[1];
  while (begin < end) {
    const int32_t middle = (begin + end) / 2;
    if (v.keys[middle] < tile)
      begin = middle + 1;
    else
      end = middle;
  }
  return begin < v.first[1] && v.keys[begin] == tile ? begin : -1;
}

/// Whether some head visits the tile of these keys.
bool some_visits(const AttentionCall& call, const AttentionSpan& span, int64_t key) {
  for (int64_t head = 0; head < call.heads; ++head)
    if (visit_of(call, span, head, key) != -1) return true;
  return false;
}

/// Logits of keys in a tile that a head does not visit, or that its rule hides, become -infinity.
void hide_tiles(const AttentionCall& call, const AttentionSpan& span, Range keys, float* logits) {
  for (int64_t head = 0; head < call.heads; ++head) {
    const int64_t visit = visit_of(call, span, head, keys.begin);
    const AttentionVisits& v = call.visits[(&span - call.spans) * call.heads + head];
    const uint32_t* rule = visit < 0 ? nullptr : Route::rule_of(v, visit);
    if (visit != -1 && !rule) continue;
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      const uint32_t seen = rule ? rule[j % kKeyTile] : 0;
      for (int64_t i = 0; i < span.query_rows; ++i) {
        // Bits, for a branch could not be foretold: those of -infinity where nothing is seen.
        float& logit = logits[(j - keys.begin) * call.space.lanes + head * span.query_rows + i];
        const uint32_t keep = -(seen >> i & 1), number = __builtin_bit_cast(uint32_t, logit) & keep;
        logit = __builtin_bit_cast(float, number | (__builtin_bit_cast(uint32_t, kNone) & ~keep));
      }
    }
  }
}

/// logits, or multipliers, times, or plus 1 / scale times, the numbers of the pairs.
void apply_pairs_to_rows(const AttentionCall& call, const AttentionSpan& span, int64_t count, Range keys,
                         float* logits) {
  const float factor = 1 / call.scale;
  const float* from = pairs_of(call, span, 0, keys.begin);
  for (int64_t r = 0; r < keys.end - keys.begin; ++r, from += span.query_rows, logits += call.space.lanes)
    for (int64_t e = 0; e < count; ++e) {
      if (!has_pairs(call, e / span.query_rows)) continue;
      const float m = from[e % span.query_rows];
      logits[e] = call.extras.pairs_add ? logits[e] + m * factor : logits[e] * m;
    }
}

/// rows of lanes += bias times `factor`.
void add_bias_to_rows(const AttentionCall& call, const AttentionSpan& span, int64_t count, Range keys, float factor,
                      float* logits) {
  const AttentionExtras& x = call.extras;
  for (int64_t e = 0; e < count; e += kLanes) {
    const float *table[kLanes], *rows[kLanes];
    int64_t at[kLanes];
    Vec rate{}, apart{};
    const int64_t lanes = count - e < kLanes ? count - e : kLanes;
    for (int64_t i = 0; i < lanes; ++i) {
      const int64_t head = (e + i) / span.query_rows, query = (e + i) % span.query_rows, n = span.query_row + query;
      at[i] = distance_of(span, query, keys.begin) - x.first;
      if (x.table) table[i] = x.table + head * x.table_rows;
      if (x.rows) rows[i] = x.rows + (n * call.heads + head) * x.row_numbers;
      if (!x.rates) continue;
      rate[i] = x.rates[n * x.rate_stride + head] * factor;
      apart[i] =
          (x.centres ? x.centres[n * call.heads + head] : float(distance_of(span, query, 0))) - float(keys.begin);
    }
    float* to = logits + e;
    for (int64_t r = 0; r < keys.end - keys.begin; ++r, to += call.space.lanes, apart -= 1.0f) {
      Vec bias = x.squared ? -rate * apart * apart : -rate * magnitude(apart);
      if (x.table)
        for (int64_t i = 0; i < lanes; ++i) bias[i] += table[i][Distances{0, x.table_rows}.clamped(at[i] - r)] * factor;
      if (x.columns)
        for (int64_t i = 0; i < lanes; ++i) {
          const float* of =
              x.columns + ((span.key_row + keys.begin + r) * call.heads + (e + i) / span.query_rows) * x.column_numbers;
          bias[i] += of[Distances{0, x.column_numbers}.clamped(at[i] - r)] * factor;
        }
      if (x.rows)
        for (int64_t i = 0; i < lanes; ++i) bias[i] += rows[i][Distances{0, x.row_numbers}.clamped(at[i] - r)] * factor;
      store(to, load(to) + bias);
    }
  }
}

/// What multiplies the weights, in the lanes of logits.
Numbers multipliers_of_rows(const AttentionCall& call, const AttentionSpan& span, int64_t count, Range keys,
                            float* space) {
  const AttentionSpace& at = call.space;
  float* to = space + at.multipliers;
  const int64_t all = (keys.end - keys.begin) * at.lanes;
  for (int64_t i = 0; i < all; i += kLanes) store(to + i, Vec{});
  add_bias_to_rows(call, span, count, keys, kLog2E, to);
  raise(to, all);
  if (call.extras.pairs) apply_pairs_to_rows(call, span, count, keys, to);
  return {to, at.lanes};
}

/// Attention to keys [begin, end) alone.
template <class T>
void read_split(const AttentionCall& call, const AttentionSpan& span, Range split, float* space, State state) {
  const AttentionSpace at = call.space;
  const int64_t kv_heads = call.kv_heads, head_dim = call.head_dim;
  const int64_t count = call.heads * span.query_rows, of_head = count / kv_heads, width = (head_dim + 15) / 16 * 16;
  const int64_t lanes = (count + kLanes - 1) / kLanes * kLanes, k_stride = kv_heads * head_dim;
  const float* vectors = space + at.vectors;
  float *logits = space + at.logits, *factor = logits + kKeyTile * at.lanes;
  for (int64_t e = 0; e < lanes; e += kLanes) {
    store(state.maximum + e, splat(kNone));
    store(state.sum + e, Vec{});
  }
  for (int64_t i = 0; i < count * at.row; i += kLanes) store(state.values + i, Vec{});
  for (int64_t key = split.begin, stop; key < split.end; key = stop) {
    stop = key - key % kKeyTile + kKeyTile < split.end ? key - key % kKeyTile + kKeyTile : split.end;
    const Range keys{key, stop};
    const int64_t rows = stop - key;
    if (call.visits && !some_visits(call, span, key)) continue;
    const TileRows<T> k(span.keys, key, stop, span.key_rows, kv_heads, head_dim);
    TileRows<T> v(span.values, key, stop, span.key_rows, kv_heads, call.value_dim);
    v.again = v.rows == k.rows;
    const auto dot = [&](const auto& of) {
      if (of_head >= 4)
        dot_tile<4>(call, k, of, rows, of_head, vectors, width, logits);
      else if (of_head > 1)
        dot_tile<2>(call, k, of, rows, of_head, vectors, width, logits);
      else
        dot_tile<1>(call, k, of, rows, of_head, vectors, width, logits);
    };
    if constexpr (TileRows<T>::kInt4) {
      if (call.turn.frequencies) {
        const TurningKeys turning(call, span, key, space);
        dot(WidenedKeys{k, kv_heads, head_dim, &turning, space + at.turned});
      } else {
        dot(WidenedKeys{k, kv_heads, head_dim, nullptr, space + at.turned});
      }
    } else if (call.turn.frequencies) {
      dot(TurnedKeys<T>{k, k_stride, kv_heads, TurningKeys(call, span, key, space), space + at.turned});
    } else {
      dot(PlainKeys<T>{k, k_stride});
    }
    if (call.softcap != 0)
      for (int64_t j = 0; j < rows; ++j) cap_logits(call, lanes, logits + j * at.lanes, nullptr);
    if (call.extras.pairs && !call.extras.multiplies) apply_pairs_to_rows(call, span, count, keys, logits);
    if (call.extras.bias) add_bias_to_rows(call, span, count, keys, 1 / call.scale, logits);
    if (span.query_rows > 1 || call.head_masks) hide_rows(call, span, count, keys, logits);
    if (call.visits) hide_tiles(call, span, keys, logits);
    Numbers by;
    if (call.extras.multiplies) by = multipliers_of_rows(call, span, count, keys, space);
    soften<Single>(logits, at.lanes, lanes, rows, call.scale * kLog2E, state.maximum, state.sum, factor, by);
    for (int64_t e = 0; e < count; ++e)
      for (int64_t c = 0; c < at.row; c += kLanes)
        store(state.values + e * at.row + c, load(state.values + e * at.row + c) * factor[e]);
    add_tile(call, v, rows, of_head, logits, state.values, space + at.turned);
  }
}

/// The attention to both sets of keys, in `to`.
void merge(const AttentionCall& call, int64_t count, const State& to, const State& from) {
  const int64_t row = call.space.row;
  for (int64_t e = 0; e < count; e += kLanes) {
    const Vec a = load(to.maximum + e), b = load(from.maximum + e), now = a > b ? a : b == b ? b : a;
    const Vec base = now == kNone ? Vec{} : now, keep_a = power(a - base), keep_b = power(b - base);
    store(to.maximum + e, now);
    store(to.sum + e, load(to.sum + e) * keep_a + load(from.sum + e) * keep_b);
    for (int64_t i = e; i < e + kLanes && i < count; ++i)
      for (int64_t c = i * row; c < (i + 1) * row; c += kLanes)
        store(to.values + c, load(to.values + c) * keep_a[i - e] + load(from.values + c) * keep_b[i - e]);
  }
}

template <class T>
void write(const AttentionCall& call, const AttentionSpan& span, const State& state) {
  T* out = static_cast<T*>(span.out);
  for (int64_t e = 0; e < call.heads * span.query_rows; ++e) {
    const int64_t at = e % span.query_rows * call.heads + e / span.query_rows;
    const float total = state.sum[e], scale = total == 0 ? 0 : 1 / total;
    each(
        call.value_dim, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
          store(out + at * call.value_dim + c, load(state.values + e * call.space.row + c) * scale, lanes);
        });
    if (span.lse) span.lse[at] = state.maximum[e] * kLn2 + __builtin_logf(total);
  }
}

template <class T>
void decode(const AttentionCall& call, const AttentionTask& task, float* space) {
  const AttentionSpan& span = call.spans[task.span];
  const int64_t count = call.heads * span.query_rows, width = (call.head_dim + 15) / 16 * 16;
  const T* q = static_cast<const T*>(span.q);
  for (int64_t e = 0; e < count; ++e) {
    const T* from = q + (e % span.query_rows * call.heads + e / span.query_rows) * call.head_dim;
    float* to = space + call.space.vectors + e * width;
    for (int64_t c = 0; c < width; c += kLanes) store(to + c, Vec{});
    each(
        call.head_dim, [&](int64_t c, auto lanes)
                           __attribute__((always_inline)) { store(to + c, load(from + c, lanes)); });
  }
  // Splits are counted from the start of a tile, whatever the first visible key.
  const int64_t seen = visible_keys(call.mask, span, 0).begin, first = seen - seen % kKeyTile,
                last = visible_keys(call.mask, span, span.query_rows - 1).end;
  const State state(call.space, space + call.space.state);
  for (int64_t split = task.begin; split < task.end; ++split) {
    const int64_t start = first + split * span.split_keys, begin = start < seen ? seen : start,
                  end = start + span.split_keys < last ? start + span.split_keys : last;
    // Splits are merged in order, so that the result does not depend on who read them: those that
    // continue another part's span (never all kSplits) wait for it, in front of the last place.
    const bool starts = split == 0, continues = task.begin > 0;
    const State own(call.space, space + call.space.partials +
                                    (continues ? split - task.begin : kSplits - 1) * call.space.state_floats);
    const State& to = starts ? state : own;
    if (call.key_dtype == DType::f32)
      read_split<float>(call, span, {begin, end}, space, to);
    else if (call.key_dtype == DType::bf16)
      read_split<bf16>(call, span, {begin, end}, space, to);
    else if (call.key_dtype == DType::u8)
      read_split<Int4>(call, span, {begin, end}, space, to);
    else
      read_split<int8_t>(call, span, {begin, end}, space, to);
    if (!starts && !continues) merge(call, count, state, own);
  }
  if (task.begin == 0 && task.end == span.splits) write<T>(call, span, state);
}

template <class T>
void finish(const AttentionCall& call) {
  for (int64_t part = 0; part < call.parts; ++part) {
    if (call.first_task[part] == call.first_task[part + 1]) continue;
    const AttentionTask& last = call.tasks[call.first_task[part + 1] - 1];
    const AttentionSpan& span = call.spans[last.span];
    if (last.kind != AttentionTask::decode || last.begin > 0 || last.end == span.splits) continue;
    const auto space_of = [&](int64_t p) { return call.workspace + p * call.space.floats; };
    const State state(call.space, space_of(part) + call.space.state);
    int64_t done = last.end;
    for (int64_t p = part + 1; done < span.splits; ++p)
      if (call.first_task[p] < call.first_task[p + 1])  // else: a part without work
        for (int64_t i = 0; i < call.tasks[call.first_task[p]].end - call.tasks[call.first_task[p]].begin; ++i, ++done)
          merge(call, call.heads * span.query_rows, state,
                State(call.space, space_of(p) + call.space.partials + i * call.space.state_floats));
    write<T>(call, span, state);
  }
}

}  // namespace

void attention_decode(const AttentionCall& call, const AttentionTask& task, float* space) {
  if (call.dtype == DType::f32)
    decode<float>(call, task, space);
  else
    decode<bf16>(call, task, space);
}

void attention_decode_finish(const AttentionCall& call) {
  if (call.dtype == DType::f32)
    finish<float>(call);
  else
    finish<bf16>(call);
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
