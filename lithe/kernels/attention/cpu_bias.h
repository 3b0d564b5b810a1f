// What depends on the distance of a query and a key, in tiles [keys][kPanel] of cpu_tiles.h: biases, rules of tiles,
// and their gradients. In a tile the distance grows by one from lane to lane and falls by one from row to row, so that
// a table by distance is a strip of numbers that every row reads one further to the left.
#pragma once

#include "lithe/kernels/attention/cpu_tiles.h"

namespace lithe::kernels::cpu::LITHE_ISA {

/// Distance of the panel's first query to the first of the keys.
[[gnu::always_inline]] inline int64_t distance_of(const AttentionSpan& span, int64_t query, int64_t key) {
  return query + span.key_rows - span.query_rows - key;
}

/// Numbers of one distance each, of which index `at` is that of lane 0 in row 0: in a tile of `rows` rows, lane i of
/// row r has number clamp(at + i - r).
struct Distances {
  int64_t at, count;
  [[gnu::always_inline]] int64_t clamped(int64_t i) const { return i < 0 ? 0 : i < count ? i : count - 1; }
  /// The lanes [lane, lane + lanes) of rows [row, row + n) all have the first, or the last number.
  [[gnu::always_inline]] bool before(int64_t lane, int64_t lanes, int64_t row) const {
    return at + lane + lanes - 1 - row <= 0;
  }
  [[gnu::always_inline]] bool behind(int64_t lane, int64_t row, int64_t n) const {
    return at + lane - (row + n - 1) >= count - 1;
  }
};

/// tile += factor table, a table for all queries.
[[gnu::noinline, maybe_unused]] static void add_table(const float* table, Distances d, int64_t rows, float factor,
                                                      float* tile) {
  if (d.before(0, kPanel, 0) || d.behind(0, 0, rows)) {
    const Vec same = splat(table[d.before(0, kPanel, 0) ? 0 : d.count - 1] * factor);
    for (int64_t i = 0; i < rows * kPanel; i += kLanes) store(tile + i, load(tile + i) + same);
    return;
  }
  float strip[kPanel + kKeyTile];
  const int64_t lowest = d.at - (rows - 1), all = rows + kPanel - 1;
  for (int64_t e = 0; e < all; ++e) strip[e] = table[d.clamped(lowest + e)] * factor;
  for (int64_t r = 0; r < rows; ++r)
    for (int lane = 0; lane < kPanel; lane += kLanes) {
      float* to = tile + r * kPanel + lane;
      store(to, load(to) + load(strip + rows - 1 - r + lane));
    }
}

/// table += the sums of the tile by distance.
[[gnu::noinline, maybe_unused]] static void sum_table(const float* tile, Distances d, int64_t rows, float* table) {
  constexpr int kCount = kPanel / kLanes;
  float strip[kPanel + kKeyTile];
  const IntVec last = lane_numbers() + (kLanes - 1);  // the last lane of one, then all but the last of another
  Vec window[kCount] = {};
  for (int64_t r = 0; r < rows; ++r) {
    if (r > 0) {
#pragma GCC unroll 8
      for (int v = kCount - 1; v > 0; --v) window[v] = shuffled(window[v - 1], window[v], last);
      window[0] = shuffled(Vec{}, window[0], last);
    }
#pragma GCC unroll 8
    for (int v = 0; v < kCount; ++v) window[v] += load(tile + r * kPanel + v * kLanes);
    // The last lane leaves the window; those before it are written again.
    store(strip + rows - 1 - r + (kCount - 1) * kLanes, window[kCount - 1]);
  }
#pragma GCC unroll 8
  for (int v = 0; v < kCount; ++v) store(strip + v * kLanes, window[v]);
  const int64_t lowest = d.at - (rows - 1), all = rows + kPanel - 1;
  for (int64_t e = 0; e < all; ++e) table[d.clamped(lowest + e)] += strip[e];
}

/// tile += factor numbers of each query: those of query i start at from + i * stride. Lanes beyond `queries` have those
/// of the last.
[[gnu::noinline, maybe_unused]] static void add_rows_by_distance(const float* from, int64_t stride, int64_t queries,
                                                                 Distances d, int64_t rows, float factor, float* tile) {
  for (int lane = 0; lane < kPanel; lane += kLanes) {
    const float* of[kLanes];
    Vec first, last;
    for (int i = 0; i < kLanes; ++i) {
      of[i] = from + (lane + i < queries ? lane + i : queries - 1) * stride;
      first[i] = of[i][0] * factor, last[i] = of[i][d.count - 1] * factor;
    }
    for (int64_t row = 0; row < rows; row += kLanes) {
      const int64_t n = rows - row < kLanes ? rows - row : kLanes;
      float* to = tile + row * kPanel + lane;
      if (d.before(lane, kLanes, row) || d.behind(lane, row, n)) {
        const Vec same = d.before(lane, kLanes, row) ? first : last;
        for (int64_t r = 0; r < n; ++r) store(to + r * kPanel, load(to + r * kPanel) + same);
        continue;
      }
      // Column c of the square is row kLanes - 1 - c of the tile.
      const int64_t lowest = d.at + lane - (row + kLanes - 1);
      Vec square[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        const int64_t begin = lowest + i;
        if (begin >= 0 && begin + kLanes <= d.count) {
          square[i] = load(of[i] + begin);
        } else {
          float some[kLanes];
          for (int c = 0; c < kLanes; ++c) some[c] = of[i][d.clamped(begin + c)];
          square[i] = load(some);
        }
      }
      transpose(square);
#pragma GCC unroll 16
      for (int r = 0; r < kLanes; ++r)
        if (r < n) store(to + r * kPanel, load(to + r * kPanel) + square[kLanes - 1 - r] * factor);
    }
  }
}

/// The way back: numbers of each query += the sums of the tile.
[[gnu::noinline, maybe_unused]] static void sum_rows_by_distance(const float* tile, Distances d, int64_t rows,
                                                                 float* to, int64_t stride, int64_t queries) {
  for (int lane = 0; lane < kPanel && lane < queries; lane += kLanes) {
    const int64_t lanes = queries - lane < kLanes ? queries - lane : kLanes;
    Vec first{}, last{};
    for (int64_t row = 0; row < rows; row += kLanes) {
      const int64_t n = rows - row < kLanes ? rows - row : kLanes;
      const float* from = tile + row * kPanel + lane;
      if (d.before(lane, kLanes, row)) {
        for (int64_t r = 0; r < n; ++r) first += load(from + r * kPanel);
        continue;
      }
      if (d.behind(lane, row, n)) {
        for (int64_t r = 0; r < n; ++r) last += load(from + r * kPanel);
        continue;
      }
      const int64_t lowest = d.at + lane - (row + kLanes - 1);
      Vec square[kLanes];
#pragma GCC unroll 16
      for (int r = 0; r < kLanes; ++r) square[kLanes - 1 - r] = r < n ? load(from + r * kPanel) : Vec{};
      transpose(square);
      for (int64_t i = 0; i < lanes; ++i) {
        float* of = to + (lane + i) * stride;
        const int64_t begin = lowest + i;
        if (begin >= 0 && begin + kLanes <= d.count)
          store(of + begin, load(of + begin) + square[i]);
        else
          for (int c = 0; c < kLanes; ++c) of[d.clamped(begin + c)] += square[i][c];
      }
    }
    for (int64_t i = 0; i < lanes; ++i) {
      float* of = to + (lane + i) * stride;
      of[0] += first[i];
      of[d.count - 1] += last[i];
    }
  }
}

/// tile += factor numbers of each key: those of row r start at from + r * stride.
[[gnu::noinline, maybe_unused]] static void add_columns_by_distance(const float* from, int64_t stride, Distances d,
                                                                    int64_t rows, float factor, float* tile) {
  for (int64_t r = 0; r < rows; ++r, from += stride)
    for (int lane = 0; lane < kPanel; lane += kLanes) {
      float* to = tile + r * kPanel + lane;
      const int64_t begin = d.at + lane - r;
      Vec add;
      if (d.behind(lane, r, 1) || d.before(lane, kLanes, r))
        add = splat(from[d.behind(lane, r, 1) ? d.count - 1 : 0]);
      else if (begin >= 0 && begin + kLanes <= d.count)
        add = load(from + begin);
      else
        for (int i = 0; i < kLanes; ++i) add[i] = from[d.clamped(begin + i)];
      store(to, load(to) + add * factor);
    }
}

/// The way back: numbers of each key += the sums of the tile.
[[gnu::noinline, maybe_unused]] static void sum_columns_by_distance(const float* tile, Distances d, int64_t rows,
                                                                    float* to, int64_t stride) {
  for (int64_t r = 0; r < rows; ++r, to += stride)
    for (int lane = 0; lane < kPanel; lane += kLanes) {
      const Vec x = load(tile + r * kPanel + lane);
      const int64_t begin = d.at + lane - r;
      if (d.behind(lane, r, 1) || d.before(lane, kLanes, r))
        to[d.behind(lane, r, 1) ? d.count - 1 : 0] += sum(x);
      else if (begin >= 0 && begin + kLanes <= d.count)
        store(to + begin, load(to + begin) + x);
      else
        for (int i = 0; i < kLanes; ++i) to[d.clamped(begin + i)] += x[i];
    }
}

/// Rates (times `factor`) and centres of kLanes queries from `query` on, which is less than `queries`.
struct Rates {
  Vec rate, centre;
  [[gnu::always_inline]] Rates(const AttentionCall& call, const AttentionSpan& span, int64_t head, int64_t query,
                               int64_t queries, float factor) {
    const AttentionExtras& x = call.extras;
    for (int i = 0; i < kLanes; ++i) {
      const int64_t q = query + i < queries ? query + i : queries - 1, row = span.query_row + q;
      rate[i] = x.rates[row * x.rate_stride + head] * factor;
      centre[i] = x.centres ? x.centres[row * call.heads + head] : float(distance_of(span, q, 0));
    }
  }
};
[[gnu::always_inline]] inline Vec magnitude(Vec x) { return as_floats(as_ints(x) & 0x7fffffff); }

[[gnu::always_inline]] inline bool has_pairs(const AttentionCall& call, int64_t head) {
  return !call.extras.pair_heads || call.extras.pair_heads[head];
}

/// The numbers of the pairs of a query and those behind it with a key.
[[gnu::always_inline]] inline const float* pairs_of(const AttentionCall& call, const AttentionSpan& span, int64_t query,
                                                    int64_t key) {
  const AttentionExtras& x = call.extras;
  return x.pairs + x.pair_offsets[&span - call.spans] + key * span.query_rows + query;
}

/// logits times, or plus 1 / scale times, the numbers of the pairs. kMultiply: `slopes`, unless null, are multiplied,
/// too; `set`: they are set.
template <bool kMultiply>
[[gnu::noinline, maybe_unused]] static void apply_pairs(const AttentionCall& call, const AttentionSpan& span,
                                                        const Panel& panel, Range keys, float* logits, float* slopes,
                                                        bool set) {
  const float factor = 1 / call.scale;
  const float* from = pairs_of(call, span, panel.first, keys.begin);
  for (int64_t r = 0; r < keys.end - keys.begin; ++r, from += span.query_rows)
    for (int64_t lane = 0; lane < kPanel; lane += kLanes) {
      const int64_t left = panel.rows - lane;
      const Vec m = left >= kLanes ? load(from + lane) : left > 0 ? load(from + lane, First{int(left)}) : Vec{};
      float* to = logits + r * kPanel + lane;
      if constexpr (kMultiply) {
        store(to, load(to) * m);
        if (!slopes) continue;
        float* slope = slopes + r * kPanel + lane;
        store(slope, set ? m : load(slope) * m);
      } else {
        store(to, load(to) + m * factor);
      }
    }
}

/// tile += bias times `factor`: of logits 1 / scale, so that what follows is as without.
[[gnu::noinline, maybe_unused]] static void add_bias(const AttentionCall& call, const AttentionSpan& span, int64_t head,
                                                     const Panel& panel, Range keys, float factor, float* logits) {
  const AttentionExtras& x = call.extras;
  const int64_t rows = keys.end - keys.begin, t = distance_of(span, panel.first, keys.begin);
  if (x.table) add_table(x.table + head * x.table_rows, {t - x.first, x.table_rows}, rows, factor, logits);
  if (x.rows)
    add_rows_by_distance(x.rows + ((span.query_row + panel.first) * call.heads + head) * x.row_numbers,
                         call.heads * x.row_numbers, panel.rows, {t - x.first, x.row_numbers}, rows, factor, logits);
  if (x.columns)
    add_columns_by_distance(x.columns + ((span.key_row + keys.begin) * call.heads + head) * x.column_numbers,
                            call.heads * x.column_numbers, {t - x.first, x.column_numbers}, rows, factor, logits);
  if (x.pairs_add && has_pairs(call, head)) apply_pairs<false>(call, span, panel, keys, logits, nullptr, false);
  if (!x.rates) return;
  for (int lane = 0; lane < kPanel; lane += kLanes) {
    const Rates of(call, span, head, panel.first + lane, panel.first + panel.rows, factor);
    Vec apart = of.centre - float(keys.begin);
    float* to = logits + lane;
    if (x.squared)
      for (int64_t r = 0; r < rows; ++r, to += kPanel, apart -= 1.0f) store(to, load(to) - of.rate * apart * apart);
    else
      for (int64_t r = 0; r < rows; ++r, to += kPanel, apart -= 1.0f) store(to, load(to) - of.rate * magnitude(apart));
  }
}

/// 2^x of what multiplies weights, in place; finite, for weights of 0 stay so.
[[gnu::always_inline]] inline void raise(float* x, int64_t count) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const Vec e = load(x + i);
    store(x + i, power(e > 127.0f ? splat(127) : e));
  }
}

/// What multiplies the weights of a tile: the numbers of the pairs where they lie, or `space` [keys][kPanel].
[[gnu::noinline, maybe_unused]] static Numbers multipliers_of(const AttentionCall& call, const AttentionSpan& span,
                                                              int64_t head, const Panel& panel, Range keys,
                                                              float* space) {
  const AttentionExtras& x = call.extras;
  const bool pairs = x.pairs && has_pairs(call, head), rest = x.table || x.rows || x.columns || x.rates;
  if (!pairs && !rest) return {};
  if (!rest && panel.rows == kPanel) return {pairs_of(call, span, panel.first, keys.begin), span.query_rows};
  const int64_t count = (keys.end - keys.begin) * kPanel;
  for (int64_t i = 0; i < count; i += kLanes) store(space + i, splat(rest ? 0 : 1));
  if (rest) {
    add_bias(call, span, head, panel, keys, kLog2E, space);
    raise(space, count);
  }
  if (pairs) apply_pairs<true>(call, span, panel, keys, space, nullptr, false);
  return {space, kPanel};
}

/// Gradients of the bias from those of the logits: of what keys have, and of the rest.
[[gnu::noinline, maybe_unused]] static void add_column_gradient(const AttentionCall& call, const AttentionSpan& span,
                                                                int64_t head, const Panel& panel, Range keys,
                                                                const float* dlogits) {
  const AttentionExtras& x = call.extras;
  sum_columns_by_distance(
      dlogits, {distance_of(span, panel.first, keys.begin) - x.first, x.column_numbers}, keys.end - keys.begin,
      x.dcolumns + ((span.key_row + keys.begin) * call.heads + head) * x.column_numbers, call.heads * x.column_numbers);
}
[[gnu::noinline, maybe_unused]] static void add_bias_gradient(const AttentionCall& call, const AttentionSpan& span,
                                                              int64_t head, const Panel& panel, Range keys,
                                                              const float* dlogits) {
  const AttentionExtras& x = call.extras;
  const int64_t rows = keys.end - keys.begin, t = distance_of(span, panel.first, keys.begin);
  if (x.dtable)
    sum_table(dlogits, {t - x.first, x.table_rows}, rows,
              x.dtable + ((span.first_block + panel.first / kBlock) * call.heads + head) * x.table_rows);
  if (x.drows)
    sum_rows_by_distance(dlogits, {t - x.first, x.row_numbers}, rows,
                         x.drows + ((span.query_row + panel.first) * call.heads + head) * x.row_numbers,
                         call.heads * x.row_numbers, panel.rows);
  if (!x.drates && !x.dcentres) return;
  for (int lane = 0; lane < kPanel && lane < panel.rows; lane += kLanes) {
    const Rates of(call, span, head, panel.first + lane, panel.first + panel.rows, 1);
    Vec apart = of.centre - float(keys.begin), drate{}, dcentre{};
    for (int64_t r = 0; r < rows; ++r, apart -= 1.0f) {
      const Vec dl = load(dlogits + r * kPanel + lane);
      drate += dl * (x.squared ? apart * apart : magnitude(apart));
      dcentre += dl * (x.squared ? 2.0f * apart : apart > 0.0f ? splat(1) : apart < 0.0f ? splat(-1) : Vec{});
    }
    dcentre *= of.rate;
    for (int64_t i = 0; i < kLanes && lane + i < panel.rows; ++i) {
      const int64_t at = (span.query_row + panel.first + lane + i) * call.heads + head;
      if (x.drates) x.drates[at] -= drate[i];
      if (x.dcentres) x.dcentres[at] -= dcentre[i];
    }
  }
}

// ---- weights by distance

/// Weights of a tile as soften() left them, as numbers; 0 from row `low` on in the first half of the lanes.
template <class Dot>
[[gnu::noinline]] void unpack_weights(const float* p, int64_t rows, int64_t low, float* to) {
  for (int64_t r = 0; r < rows; ++r)
    for (int lane = 0; lane < kPanel; lane += kLanes) {
      Vec x{};
      if (r < low || lane >= kHalf) {
        if constexpr (Dot::kPairs) {
          const IntVec words = as_ints(load(p + r / 2 * kPanel + lane));
          x = as_floats(r % 2 ? words & int32_t(0xffff0000) : words << 16);
        } else {
          x = load(p + r * kPanel + lane);
        }
      }
      store(to + r * kPanel + lane, x);
    }
}

/// Sums of weights by distance of one panel. Those of the first and last distance stand in lanes and run with the
/// maximum; the others are where they will be, of weights with the maximum `reference`.
struct Shares {
  float *first, *last, *reference;  // [kPanel]
  float* rows;                      // of the first query
  int64_t stride, queries;
  Distances d;  // `at`: of key 0

  [[gnu::always_inline]] Shares(const AttentionCall& call, const AttentionSpan& span, int64_t head, const Panel& panel,
                                float* space)
      : first(space), last(space + kPanel), reference(space + 2 * kPanel) {
    const AttentionExtras& x = call.extras;
    rows = x.shares + ((span.query_row + panel.first) * call.heads + head) * x.share_numbers;
    stride = call.heads * x.share_numbers, queries = panel.rows;
    d = {distance_of(span, panel.first, 0) - x.shares_first, x.share_numbers};
  }
  [[gnu::noinline]] void start() {
    for (int lane = 0; lane < kPanel; lane += kLanes) {
      store(first + lane, Vec{});
      store(last + lane, Vec{});
      store(reference + lane, splat(kNone));
    }
    for (int64_t i = 0; i < queries; ++i) __builtin_memset(rows + i * stride, 0, size_t(d.count) * sizeof(float));
  }
  /// From `maximum` on the rows count as sums of weights with it, times `factor`.
  [[gnu::noinline]] void rescale(const float* maximum, const float* factor) {
    float by[kPanel];
    for (int lane = 0; lane < kPanel; lane += kLanes) {
      const Vec now = load(maximum + lane), base = now == kNone ? Vec{} : now;
      store(by + lane, power(load(reference + lane) - base) * load(factor + lane));
      store(reference + lane, now);
    }
    for (int64_t i = 0; i < queries; ++i)
      each(
          d.count, [&](int64_t c, auto lanes) __attribute__((always_inline)) {
            store(rows + i * stride + c, load(rows + i * stride + c, lanes) * by[i], lanes);
          });
  }
  /// Weights [rows][kPanel] of keys from `key` on; `shrink` is what earlier sums are multiplied with.
  [[gnu::noinline]] void add(const float* tile, int64_t key, int64_t count, const float* maximum, const float* shrink) {
    const Distances here{d.at - key, d.count};
    const bool before = here.before(0, kPanel, 0), behind = here.behind(0, 0, count);
    for (int lane = 0; lane < kPanel; lane += kLanes) {
      Vec sum{};
      if (before || behind)
        for (int64_t r = 0; r < count; ++r) sum += load(tile + r * kPanel + lane);
      const Vec factor = load(shrink + lane);
      store(first + lane, load(first + lane) * factor + (before ? sum : Vec{}));
      store(last + lane, load(last + lane) * factor + (before ? Vec{} : sum));
    }
    if (before || behind) return;
    float ones[kPanel];
    for (int lane = 0; lane < kPanel; lane += kLanes) store(ones + lane, splat(1));
    rescale(maximum, ones);
    sum_rows_by_distance(tile, here, count, rows, stride, queries);
  }
  /// `factor`: one over the sums of all weights.
  [[gnu::noinline]] void finish(const float* maximum, const float* factor) {
    rescale(maximum, factor);
    for (int64_t i = 0; i < queries; ++i) {
      rows[i * stride] += first[i] * factor[i];
      rows[i * stride + d.count - 1] += last[i] * factor[i];
    }
  }
};

// ---- tiles that are named

/// Logits of pairs that the rule of a tile hides become -infinity; row r is key `skip` + r of the tile.
[[gnu::noinline, maybe_unused]] static void hide_by_rule(const uint32_t* rule, int64_t skip, int64_t rows,
                                                         float* logits) {
  for (int lane = 0; lane < kPanel; lane += kLanes) {
    IntVec bit;
    for (int i = 0; i < kLanes; ++i) bit[i] = int32_t(1u << (lane + i));
    for (int64_t r = 0; r < rows; ++r) {
      float* to = logits + r * kPanel + lane;
      const IntVec word = IntVec{} + int32_t(rule[skip + r]);
      store(to, (word & bit) != 0 ? load(to) : splat(kNone));
    }
  }
}

/// The tiles of keys, in ascending order, that up to kLongBlock queries of one head visit.
class Route {
 public:
  [[gnu::always_inline]] Route(const AttentionCall& call, const AttentionSpan& span, int64_t head, Range queries)
      : visits_(call.visits ? call.visits + (&span - call.spans) * call.heads + head : nullptr),
        panels_((queries.end - queries.begin + kPanel - 1) / kPanel) {
    if (visits_ && !visits_->first) visits_ = nullptr;
    if (!visits_) return;
    for (int64_t i = 0; i < panels_; ++i) {
      at_[i] = visits_->first[queries.begin / kPanel + i];
      end_[i] = visits_->first[queries.begin / kPanel + i + 1];
    }
  }
  /// The first key at or behind `key` of a tile that some panel visits, at most `stop`. Keys ascend from call to call.
  [[gnu::always_inline]] int64_t seek(int64_t key, int64_t stop) {
    if (!visits_) return key;
    const int32_t tile = int32_t(key / kKeyTile);
    int64_t next = stop;
    for (int64_t i = 0; i < panels_; ++i) {
      while (at_[i] < end_[i] && visits_->keys[at_[i]] < tile) ++at_[i];
      if (at_[i] == end_[i]) continue;
      const int64_t from = int64_t(visits_->keys[at_[i]]) * kKeyTile, first = from > key ? from : key;
      next = first < next ? first : next;
    }
    return next;
  }
  /// What panel i visits of `keys`, from its first tile to its last.
  [[gnu::always_inline]] Range within(int64_t i, Range keys) const {
    if (!visits_) return keys;
    int32_t at = at_[i], last = end_[i] - 1;
    while (at <= last && (int64_t(visits_->keys[at]) + 1) * kKeyTile <= keys.begin) ++at;
    while (last >= at && int64_t(visits_->keys[last]) * kKeyTile >= keys.end) --last;
    if (at > last) return {keys.end, keys.end};
    const int64_t begin = int64_t(visits_->keys[at]) * kKeyTile, end = (int64_t(visits_->keys[last]) + 1) * kKeyTile;
    return {begin > keys.begin ? begin : keys.begin, end < keys.end ? end : keys.end};
  }
  /// Panel i visits the tile of `key`, which seek() gave last; `rule` is its rule, or null.
  [[gnu::always_inline]] bool meets(int64_t i, int64_t key, const uint32_t*& rule) const {
    rule = nullptr;
    if (!visits_) return true;
    if (at_[i] == end_[i] || visits_->keys[at_[i]] != key / kKeyTile) return false;
    rule = rule_of(*visits_, at_[i]);
    return true;
  }
  [[gnu::always_inline]] static const uint32_t* rule_of(const AttentionVisits& v, int64_t visit) {
    return v.rule && v.rule[visit] >= 0 ? v.rules + int64_t(v.rule[visit]) * kKeyTile : nullptr;
  }

 private:
  const AttentionVisits* visits_;
  int64_t panels_;
  int32_t at_[kLongBlock / kPanel], end_[kLongBlock / kPanel];
};

}  // namespace lithe::kernels::cpu::LITHE_ISA
