// The specification of attention and its gradient: scalar, serial, sums in f64 whatever the storage.
//   l[i,j] = cap(scale q[i] . k[j]) (times pairs that multiply) + bias(i, j),   p[i,:] = softmax over the visible j of
//   l[i,:],   cap(x) = c tanh(x / c) where c = softcap > 0, else x; cap' = 1 - tanh(x / c)^2
//   w[i,j] = p[i,j] m[i,j]; m = 1, or, where the bias multiplies weights, pairs exp(bias(i, j)), and l has no bias
//   out[i] = sum_j w[i,j] v[j],   lse[i] = log sum_j exp l[i,j],   shares[i,u] = sum of w[i,j] at distance u
// A row that sees nothing: out = 0, shares = 0, lse = -inf. With g[i,j] = dout[i] . v[j] + dshares[i,u]:
//   dv[j] = sum_i w[i,j] dout[i],   dl[i,j] = p[i,j] (m[i,j] g[i,j] - sum_j' w[i,j'] g[i,j'] + dlse[i])
//   dq[i] = scale sum_j cap' dl[i,j] k[j],   dk[j] = scale sum_i cap' dl[i,j] q[i],   of the bias: dl[i,j], or
//   w[i,j] g[i,j] where it multiplies weights, times its derivative
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "lithe/kernels/attention/attention.h"
#include "lithe/kernels/int4_rows/reference.h"

namespace lithe::kernels::ref {

/// The keys [begin, end) that query i of a segment sees.
struct Visible {
  int64_t begin, end;
};
inline Visible visible_keys(const AttentionSegment& s, const AttentionMask& mask, int64_t i) {
  const int64_t position = i + s.key_rows - s.query_rows;
  Visible keys{0, s.key_rows};
  if (mask.window > 0) {
    keys.begin = std::max<int64_t>(0, position - mask.window + 1);
    keys.end = std::min(s.key_rows, position + mask.window);
  }
  if (mask.causal) keys.end = std::min(keys.end, position + 1);
  keys.end = std::max(keys.begin, keys.end);
  return keys;
}

/// The first `rows` rows of pages as numbers, one after another.
inline std::vector<double> numbers(const PagedRows& x, int64_t rows, int64_t heads) {
  std::vector<double> out;
  for (size_t page = 0; page < x.pages.size() && rows > 0; ++page) {
    Tensor values = x.pages[page];
    const int64_t n = std::min(rows, values.dim(0)), size = x.cols() / heads;
    if (x.width) {
      values = empty({values.dim(0), x.width}, DType::f32);
      dequantize_int4_rows<float>({.codes = x.pages[page], .scales = x.scales[page], .out = values, .heads = heads});
    }
    for (int64_t i = 0; i < n * values.cols(); ++i)
      out.push_back(value_at(values, i) * (x.scales.empty() || x.width ? 1 : value_at(x.scales[page], i / size)));
    rows -= n;
  }
  return out;
}

/// Keys [rows, kv_heads*head_dim] of a segment, turned by their positions as KeyTurn says.
inline void turn(const AttentionArgs& a, const AttentionSegment& s, std::vector<double>& keys) {
  if (!a.turn) return;
  const auto pairs = int64_t(a.turn->frequencies.size()), width = a.kv_heads * a.head_dim;
  for (int64_t j = 0; j < s.key_rows; ++j)
    for (int64_t c = 0; c < pairs; ++c) {
      const double angle = double(s.key_position + j) * a.turn->frequencies[size_t(c)], cosine = std::cos(angle),
                   sine = std::sin(angle);
      for (int64_t head = 0; head < a.kv_heads; ++head) {
        const int64_t first = j * width + head * a.head_dim;
        double &u = keys[size_t(first + (a.turn->interleaved ? 2 * c : c))],
               &v = keys[size_t(first + (a.turn->interleaved ? 2 * c + 1 : c + pairs))];
        const double x = u;
        u = x * cosine - v * sine;
        v = x * sine + v * cosine;
      }
    }
}

/// The rows of one segment and head; q, out and their like at query row 0, k and v (numbers of type K) at key row 0.
template <class T, class K = T>
struct HeadView {
  const T* q;
  const K *k, *v;
  int64_t q_stride, k_stride, v_stride;

  /// Of the segment's keys and values, all heads.
  HeadView(const AttentionArgs& a, const AttentionSegment& s, int64_t head, const K* keys, const K* values) {
    const int64_t group = head / (a.heads / a.kv_heads);
    q_stride = a.heads * a.head_dim, k_stride = a.kv_heads * a.head_dim, v_stride = a.kv_heads * a.value_dim;
    q = a.q.data<T>() + s.query_row * q_stride + head * a.head_dim;
    k = keys + group * a.head_dim;
    v = values + group * a.value_dim;
  }
  /// Of keys and values that are rows of a.k and a.v, or one page of numbers of type T.
  HeadView(const AttentionArgs& a, const AttentionSegment& s, int64_t head)
      : HeadView(a, s, head, start(s.keys, a.k, s.key_row, a.kv_heads * a.head_dim),
                 start(s.values, a.v, s.key_row, a.kv_heads * a.value_dim)) {}
  static const T* start(const PagedRows& own, const Tensor& all, int64_t row, int64_t cols) {
    return own.defined() ? own.pages[0].data<T>() : all ? all.data<T>() + row * cols : nullptr;
  }
};

template <class A, class B>
double dot(const A* a, const B* b, int64_t n) {
  double sum = 0;
  for (int64_t c = 0; c < n; ++c) sum += double(a[c]) * double(b[c]);
  return sum;
}

/// A segment and a query head of it.
struct Place {
  const AttentionArgs& a;
  int64_t segment, head;
  const AttentionSegment& rows() const { return a.segments[size_t(segment)]; }
  Visible visible(int64_t i) const {
    return visible_keys(rows(), a.head_masks.empty() ? a.mask : a.head_masks[size_t(head)], i);
  }
  bool sees(int64_t i, int64_t j) const {
    const TileMask::Visits* visits = a.tiles ? a.tiles->visits[size_t(segment * a.heads + head)].get() : nullptr;
    return !visits || visits->sees(i, j);
  }
  /// The number of a pair, and what the pairs multiply its logit by.
  double pair(int64_t i, int64_t j) const {
    const AttentionBias& b = a.bias;
    return value_at(b.pairs, b.pair_offsets[size_t(segment)] + j * rows().query_rows + i);
  }
  double factor(int64_t i, int64_t j) const { return a.bias.pairs_multiply && a.bias.has_pairs(head) ? pair(i, j) : 1; }
  int64_t distance(int64_t i, int64_t j) const { return i + rows().key_rows - rows().query_rows - j; }
  /// The row of q and its like.
  int64_t row(int64_t i) const { return rows().query_row + i; }
  /// The element of a table [W, heads], or of rows [N, heads*W], that query i and key j meet at.
  int64_t in_table(const Tensor& x, int64_t i, int64_t j) const {
    return std::clamp<int64_t>(distance(i, j) - a.bias.first, 0, x.dim(0) - 1) * a.heads + head;
  }
  int64_t in_rows(const Tensor& x, int64_t first, int64_t i, int64_t j) const {
    return numbered(x, row(i), first, i, j);
  }
  int64_t in_columns(const Tensor& x, int64_t i, int64_t j) const {
    return numbered(x, rows().key_row + j, a.bias.first, i, j);
  }
  int64_t numbered(const Tensor& x, int64_t of, int64_t first, int64_t i, int64_t j) const {
    const int64_t width = x.dim(1) / a.heads;
    return (of * a.heads + head) * width + std::clamp<int64_t>(distance(i, j) - first, 0, width - 1);
  }
  /// The element of [1, heads] or [N, heads].
  int64_t in_heads(const Tensor& x, int64_t i) const { return (x.dim(0) == 1 ? 0 : row(i)) * a.heads + head; }
  /// How far key j is from the centre of query i.
  double apart(int64_t i, int64_t j) const {
    const Tensor& centres = a.bias.centres;
    return centres ? value_at(centres, in_heads(centres, i)) - double(j) : double(distance(i, j));
  }
  /// What is added to the logit of a pair, and what multiplies its weight.
  double bias(int64_t i, int64_t j) const { return a.bias.multiplies_weights ? 0 : added_up(i, j); }
  double multiplier(int64_t i, int64_t j) const {
    if (!a.bias.multiplies_weights) return 1;
    return (a.bias.has_pairs(head) ? pair(i, j) : 1) * std::exp(added_up(i, j));
  }
  double added_up(int64_t i, int64_t j) const {
    const AttentionBias& b = a.bias;
    double sum = 0;
    if (b.table) sum += value_at(b.table, in_table(b.table, i, j));
    if (b.rows) sum += value_at(b.rows, in_rows(b.rows, b.first, i, j));
    if (b.columns) sum += value_at(b.columns, in_columns(b.columns, i, j));
    if (!b.pairs_multiply && !b.multiplies_weights && b.has_pairs(head)) sum += pair(i, j);
    if (b.rates) {
      const double x = apart(i, j);
      sum -= value_at(b.rates, in_heads(b.rates, i)) * (b.squared ? x * x : std::abs(x));
    }
    return sum;
  }
};

/// The scaled product of query i and key j, capped, and the derivative of the cap.
struct Capped {
  double logit, slope;
};
template <class T, class K>
Capped capped(const AttentionArgs& a, const HeadView<T, K>& x, int64_t i, int64_t j) {
  const double logit = a.scale * dot(x.q + i * x.q_stride, x.k + j * x.k_stride, a.head_dim);
  if (a.softcap == 0) return {logit, 1};
  const double e = std::exp(-2 * std::abs(logit / a.softcap));
  return {a.softcap * std::tanh(logit / a.softcap), 4 * e / ((1 + e) * (1 + e))};
}

/// p[j - keys.begin] for the visible keys of query i, 0 where tiles hide them; returns the log of the sum of
/// exponentials.
template <class T, class K>
double weights(const Place& at, const HeadView<T, K>& x, int64_t i, const Visible& keys, std::vector<double>& p) {
  const AttentionArgs& a = at.a;
  const double none = -std::numeric_limits<double>::infinity();
  p.resize(size_t(keys.end - keys.begin));
  double largest = none, sum = 0;
  for (int64_t j = keys.begin; j < keys.end; ++j) {
    double logit = capped(a, x, i, j).logit * at.factor(i, j);
    if (a.bias.defined()) logit += at.bias(i, j);
    if (!at.sees(i, j)) logit = none;
    p[size_t(j - keys.begin)] = logit;
    largest = logit > largest || std::isnan(logit) ? logit : largest;
  }
  if (largest == none) {
    std::fill(p.begin(), p.end(), 0.0);
    return none;
  }
  for (double& w : p) sum += w = std::exp(w - largest);
  for (double& w : p) w /= sum;
  return largest + std::log(sum);
}

template <class T, class K>
void attend_head(const Place& at, const HeadView<T, K>& x) {
  const AttentionArgs& a = at.a;
  const AttentionSegment& s = at.rows();
  using Lse = std::conditional_t<std::is_same_v<T, double>, double, float>;
  std::vector<double> p, row(size_t(a.value_dim));
  for (int64_t i = 0; i < s.query_rows; ++i) {
    const Visible keys = at.visible(i);
    const double lse = weights(at, x, i, keys, p);
    if (a.bias.multiplies_weights)
      for (int64_t j = keys.begin; j < keys.end; ++j) p[size_t(j - keys.begin)] *= at.multiplier(i, j);
    std::fill(row.begin(), row.end(), 0.0);
    for (int64_t j = keys.begin; j < keys.end; ++j)
      for (int64_t c = 0; c < a.value_dim; ++c)
        row[size_t(c)] += p[size_t(j - keys.begin)] * double(x.v[j * x.v_stride + c]);
    const int64_t n = (s.query_row + i) * a.heads + at.head;
    for (int64_t c = 0; c < a.value_dim; ++c) a.out.data<T>()[n * a.value_dim + c] = T(row[size_t(c)]);
    if (a.lse) a.lse.data<Lse>()[n] = Lse(lse);
    if (!a.shares) continue;
    std::vector<double> shares(size_t(a.shares.dim(1) / a.heads));
    for (int64_t j = keys.begin; j < keys.end; ++j)
      shares[size_t(at.in_rows(a.shares, a.shares_first, i, j)) % shares.size()] += p[size_t(j - keys.begin)];
    for (size_t u = 0; u < shares.size(); ++u) set_value(a.shares, n * int64_t(shares.size()) + int64_t(u), shares[u]);
  }
}

template <class T>
void attention(const AttentionArgs& a) {
  for (size_t i = 0; i < a.segments.size(); ++i) {
    const AttentionSegment& s = a.segments[i];
    std::vector<double> keys = numbers(s.keys, s.key_rows, a.kv_heads);
    turn(a, s, keys);
    const std::vector<double> values = numbers(s.values, s.key_rows, a.kv_heads);
    for (int64_t head = 0; head < a.heads; ++head) {
      const Place at{a, int64_t(i), head};
      if (s.keys.defined())
        attend_head(at, HeadView<T, double>(a, s, head, keys.data(), values.data()));
      else
        attend_head(at, HeadView<T>(a, s, head));
    }
  }
}

/// Sets element i, or adds to it.
inline void store(const Tensor& x, int64_t i, double value, bool add) {
  set_value(x, i, add ? value_at(x, i) + value : value);
}

/// Gradients of a bias, in f64 until all is added up.
struct BiasGradient {
  const AttentionGradArgs& g;
  std::vector<double> table, rows, columns, rates, centres;
  explicit BiasGradient(const AttentionGradArgs& g) : g(g) {
    const auto of = [](const Tensor& x) { return std::vector<double>(x ? size_t(x.numel()) : 0, 0.0); };
    table = of(g.dtable), rows = of(g.drows), columns = of(g.dcolumns), rates = of(g.drates), centres = of(g.dcentres);
  }
  void add(const Place& at, int64_t i, int64_t j, double dlogit) {
    const AttentionBias& b = at.a.bias;
    if (g.dtable) table[size_t(at.in_table(b.table, i, j))] += dlogit;
    if (g.drows) rows[size_t(at.in_rows(b.rows, b.first, i, j))] += dlogit;
    if (g.dcolumns) columns[size_t(at.in_columns(b.columns, i, j))] += dlogit;
    if (!g.drates && !g.dcentres) return;
    const double x = at.apart(i, j), rate = value_at(b.rates, at.in_heads(b.rates, i));
    if (g.drates) rates[size_t(at.in_heads(b.rates, i))] -= dlogit * (b.squared ? x * x : std::abs(x));
    if (g.dcentres)
      centres[size_t(at.in_heads(b.centres, i))] -= dlogit * rate * (b.squared ? 2 * x : double((x > 0) - (x < 0)));
  }
  void store() const {
    const auto put = [](const Tensor& to, const std::vector<double>& from, bool add) {
      for (size_t i = 0; i < from.size(); ++i)
        set_value(to, int64_t(i), add ? value_at(to, int64_t(i)) + from[i] : from[i]);
    };
    put(g.dtable, table, g.accumulate_dtable);
    put(g.drows, rows, g.accumulate_drows);
    put(g.dcolumns, columns, g.accumulate_dcolumns);
    put(g.drates, rates, g.accumulate_drates);
    put(g.dcentres, centres, g.accumulate_dcentres);
  }
};

/// Recomputes the weights from q and k; reads neither out nor lse. Accumulators are f64, one rounding
/// when stored.
template <class T>
void attention_grad(const AttentionGradArgs& g) {
  const AttentionArgs& a = g.forward;
  const int64_t group = a.heads / a.kv_heads, qk = a.head_dim, vd = a.value_dim;
  if (!g.accumulate_dq) fill_zero(g.dq);
  if (!g.accumulate_dk) fill_zero(g.dk);
  if (!g.accumulate_dv) fill_zero(g.dv);
  std::vector<double> p, dp, dq(size_t(qk), 0.0), dk, dv;
  BiasGradient dbias(g);
  for (size_t segment = 0; segment < a.segments.size(); ++segment) {
    const AttentionSegment& s = a.segments[segment];
    for (int64_t kv_head = 0; kv_head < a.kv_heads; ++kv_head) {
      dk.assign(size_t(s.key_rows * qk), 0.0);
      dv.assign(size_t(s.key_rows * vd), 0.0);
      for (int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        const HeadView<T> x(a, s, head);
        const Place at_head{a, int64_t(segment), head};
        for (int64_t i = 0; i < s.query_rows; ++i) {
          const int64_t n = (s.query_row + i) * a.heads + head;
          const T* dout = g.dout.data<T>() + n * vd;
          const Visible keys = at_head.visible(i);
          weights(at_head, x, i, keys, p);
          dp.resize(p.size());
          double mean = 0;
          for (int64_t j = keys.begin; j < keys.end; ++j) {
            const size_t at = size_t(j - keys.begin);
            dp[at] = dot(dout, x.v + j * x.v_stride, vd);
            if (g.dshares) dp[at] += value_at(g.dshares, at_head.in_rows(g.dshares, a.shares_first, i, j));
            dp[at] *= at_head.multiplier(i, j);
            mean += p[at] * dp[at];
          }
          if (g.dlse) mean -= value_at(g.dlse, n);
          std::fill(dq.begin(), dq.end(), 0.0);
          for (int64_t j = keys.begin; j < keys.end; ++j) {
            const size_t at = size_t(j - keys.begin);
            const double dlogit = p[at] * (dp[at] - mean),
                         dl = a.scale * capped(a, x, i, j).slope * at_head.factor(i, j) * dlogit;
            dbias.add(at_head, i, j, a.bias.multiplies_weights ? p[at] * dp[at] : dlogit);
            for (int64_t c = 0; c < qk; ++c) {
              dq[size_t(c)] += dl * double(x.k[j * x.k_stride + c]);
              dk[size_t(j * qk + c)] += dl * double(x.q[i * x.q_stride + c]);
            }
            const double weight = p[at] * at_head.multiplier(i, j);
            for (int64_t c = 0; c < vd; ++c) dv[size_t(j * vd + c)] += weight * double(dout[c]);
          }
          for (int64_t c = 0; c < qk; ++c) store(g.dq, n * qk + c, dq[size_t(c)], g.accumulate_dq);
        }
      }
      for (int64_t j = 0; j < s.key_rows; ++j) {
        const int64_t n = (s.key_row + j) * a.kv_heads + kv_head;
        for (int64_t c = 0; c < qk; ++c) store(g.dk, n * qk + c, dk[size_t(j * qk + c)], g.accumulate_dk);
        for (int64_t c = 0; c < vd; ++c) store(g.dv, n * vd + c, dv[size_t(j * vd + c)], g.accumulate_dv);
      }
    }
  }
  dbias.store();
}

}  // namespace lithe::kernels::ref
