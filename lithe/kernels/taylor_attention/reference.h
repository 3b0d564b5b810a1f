// The specification of taylor_attention.h: scalar, serial, in double.
//   x[i,j] = scale q[i] . k[j];   z[i,j] = x^2/2 (full), scale^2/2 sum_c (q[i,c] k[j,c])^2 (diag, split)
//   full, diag: out[i] = sum_j (1 + x + z) v[j] / D,  D = sum_j (1 + x + z), at least the floor for diag
//   split: out[i] = sum_j v[j] / n + sum_j x v[j] / sum_j x + sum_j z v[j] / sum_j z
#pragma once

#include <cmath>

#include "lithe/kernels/scalar.h"
#include "lithe/kernels/taylor_attention/taylor_attention.h"

namespace lithe::kernels::ref {

/// One head: weights of pairs of its rows, and features.
template <class T>
struct TaylorHead {
  const TaylorArgs& a;
  int64_t head;

  const T* q(int64_t row) const { return a.q.data<T>() + (row * a.heads + head) * a.head_dim; }
  const T* k(int64_t row) const { return a.k.data<T>() + (row * a.heads + head) * a.head_dim; }
  const T* v(int64_t row) const { return a.v.data<T>() + (row * a.heads + head) * a.value_dim; }
  Wide<T>* sums(int64_t row) const { return a.sums.data<Wide<T>>() + (row * a.heads + head) * taylor_sums(a.kind); }

  struct Pair {
    double x = 0, z = 0;
  };
  Pair pair(int64_t i, int64_t j) const {
    Pair p;
    for (int64_t c = 0; c < a.head_dim; ++c) {
      const double product = double(q(i)[c]) * double(k(j)[c]);
      p.x += product;
      p.z += product * product;
    }
    p.x *= a.scale;
    p.z = a.kind == TaylorKind::full ? p.x * p.x / 2 : p.z * a.scale * a.scale / 2;
    return p;
  }
  /// Features of k, or with their coefficients of q.
  std::vector<double> features(const T* x, double scale, double half) const {
    std::vector<double> out;
    for (int64_t c = 0; c < a.head_dim; ++c)
      for (int64_t e = a.kind == TaylorKind::full ? 0 : c; e < (a.kind == TaylorKind::full ? a.head_dim : c + 1); ++e)
        out.push_back(half * double(x[c]) * double(x[e]));
    for (int64_t c = 0; c < a.head_dim; ++c) out.push_back(scale * double(x[c]));
    out.push_back(1);
    return out;
  }
};

/// Numerators and sums of weights of one query, by order when split.
struct TaylorSums {
  bool split;
  std::vector<double> numerator[3];
  double sum[3] = {0, 0, 0};

  TaylorSums(TaylorKind kind, int64_t channels) : split(kind == TaylorKind::split) {
    for (auto& n : numerator) n.assign(size_t(channels), 0.0);
  }
  int term(int order) const { return split ? order : 0; }
  template <class V>
  void add(int order, double weight, const V* v) {
    std::vector<double>& n = numerator[term(order)];
    for (size_t m = 0; m < n.size(); ++m) n[m] += weight * double(v[m]);
    sum[term(order)] += weight;
  }
};

inline double taylor_divisor(TaylorKind kind, double sum) {
  return kind == TaylorKind::diag && !(sum >= kTaylorFloor) ? kTaylorFloor : sum;
}

template <class T>
void taylor_attention(const TaylorArgs& a) {
  const int64_t C = a.value_dim, F = taylor_features(a.kind, a.head_dim), terms = taylor_sums(a.kind);
  const bool counted = a.kind == TaylorKind::full;
  for (const TaylorSegment& segment : a.segments)
    for (int64_t head = 0; head < a.heads; ++head) {
      const TaylorHead<T> x{a, head};
      Wide<T>* state =
          segment.state ? segment.state.data<Wide<T>>() + head * taylor_state(a.kind, a.head_dim, C) : nullptr;
      const int64_t end = segment.row + segment.rows, key_end = segment.first_key() + segment.key_count();
      for (int64_t i = segment.row; i < end; ++i) {
        TaylorSums sums(a.kind, C);
        for (int64_t j = segment.first_key(); j < (a.causal ? i + 1 : key_end); ++j) {
          const auto pair = x.pair(i, j);
          sums.add(0, 1, x.v(j));
          sums.add(1, pair.x, x.v(j));
          sums.add(2, pair.z, x.v(j));
        }
        if (state && segment.past > 0) {
          const auto f = x.features(x.q(i), a.scale, a.scale * a.scale / 2);
          for (int64_t c = 0; c < F; ++c) {
            const int term = sums.term(c == F - 1 ? 0 : c >= F - 1 - a.head_dim ? 1 : 2);
            for (int64_t m = 0; m < C; ++m) sums.numerator[term][size_t(m)] += f[size_t(c)] * double(state[m * F + c]);
            sums.sum[term] += f[size_t(c)] * (c == F - 1 && !counted ? double(segment.past) : double(state[C * F + c]));
          }
        }
        for (int64_t m = 0; m < C; ++m) {
          double y = 0;
          for (int t = 0; t < terms; ++t) y += sums.numerator[t][size_t(m)] / taylor_divisor(a.kind, sums.sum[t]);
          a.out.data<T>()[(i * a.heads + head) * C + m] = T(y);
        }
        for (int t = 0; t < terms; ++t) x.sums(i)[t] = Wide<T>(sums.sum[t]);
      }
      if (!state) continue;
      std::vector<double> added(size_t((C + 1) * F), 0.0);
      for (int64_t j = segment.first_key(); j < key_end; ++j) {
        const auto f = x.features(x.k(j), 1, 1);
        for (int64_t m = 0; m <= C; ++m)
          for (int64_t c = 0; c < F; ++c) added[size_t(m * F + c)] += f[size_t(c)] * (m < C ? double(x.v(j)[m]) : 1);
      }
      for (int64_t c = 0; c < taylor_state(a.kind, a.head_dim, C); ++c) put(state[c], added[size_t(c)], true);
    }
}

// With G[i,j] = dout[i] . v[j], w the divided weights and, for each sum, M[i] = sum_j w_order[i,j] G[i,j]:
//   dv[j] = sum_i w[i,j] dout[i];   d(order)[i,j] = (G[i,j] - M[i]) / D[i], without M[i] where D is the floor
//   dx = d(1st) (+ d(2nd) x for full),   dq[i] = scale sum_j dx k[j] (+ scale^2 sum_j d(2nd) q k^2), dk likewise
template <class T>
void taylor_attention_grad(const TaylorGradArgs& g) {
  const TaylorArgs& a = g.forward;
  const int64_t E = a.head_dim, C = a.value_dim;
  const int terms = int(taylor_sums(a.kind));
  for (const TaylorSegment& segment : a.segments)
    for (int64_t head = 0; head < a.heads; ++head) {
      const TaylorHead<T> x{a, head};
      const int64_t keys = segment.key_count(), key_row = segment.first_key();
      std::vector<double> dk(size_t(keys * E), 0.0), dv(size_t(keys * C), 0.0), dq, G;
      for (int64_t i = 0; i < segment.rows; ++i) {
        const int64_t row = segment.row + i, seen = a.causal ? i + 1 : keys;
        const T* dout = g.dout.data<T>() + (row * a.heads + head) * C;
        double inverse[3], mean[3] = {0, 0, 0};
        for (int t = 0; t < terms; ++t) inverse[t] = 1 / taylor_divisor(a.kind, double(x.sums(row)[t]));
        const int first = terms == 3 ? 1 : 0, second = terms == 3 ? 2 : 0;  // the sums of these orders
        const bool floored = a.kind == TaylorKind::diag && !(double(x.sums(row)[0]) >= kTaylorFloor);
        G.assign(size_t(seen), 0.0);
        for (int64_t j = 0; j < seen; ++j) {
          const auto pair = x.pair(row, key_row + j);
          for (int64_t m = 0; m < C; ++m) G[size_t(j)] += double(dout[m]) * double(x.v(key_row + j)[m]);
          const double weight = inverse[0] + pair.x * inverse[first] + pair.z * inverse[second];
          for (int64_t m = 0; m < C; ++m) dv[size_t(j * C + m)] += weight * double(dout[m]);
          if (floored) continue;
          mean[0] += inverse[0] * G[size_t(j)];
          mean[first] += pair.x * inverse[first] * G[size_t(j)];
          mean[second] += pair.z * inverse[second] * G[size_t(j)];
        }
        dq.assign(size_t(E), 0.0);
        for (int64_t j = 0; j < seen; ++j) {
          const auto pair = x.pair(row, key_row + j);
          double dx = (G[size_t(j)] - mean[first]) * inverse[first],
                 dz = (G[size_t(j)] - mean[second]) * inverse[second];
          if (a.kind == TaylorKind::full) dx += dz * pair.x, dz = 0;
          const T *q = x.q(row), *k = x.k(key_row + j);
          for (int64_t c = 0; c < E; ++c) {
            const double u = double(q[c]), w = double(k[c]), square = a.scale * a.scale * dz;
            dq[size_t(c)] += a.scale * dx * w + square * u * w * w;
            dk[size_t(j * E + c)] += a.scale * dx * u + square * u * u * w;
          }
        }
        for (int64_t c = 0; c < E; ++c)
          put(g.dq.data<T>()[(row * a.heads + head) * E + c], dq[size_t(c)], g.accumulate_dq);
      }
      for (int64_t j = 0; j < keys; ++j) {
        const int64_t at = (key_row + j) * a.heads + head;
        for (int64_t c = 0; c < E; ++c) put(g.dk.data<T>()[at * E + c], dk[size_t(j * E + c)], g.accumulate_dk);
        for (int64_t m = 0; m < C; ++m) put(g.dv.data<T>()[at * C + m], dv[size_t(j * C + m)], g.accumulate_dv);
      }
    }
}

}  // namespace lithe::kernels::ref
