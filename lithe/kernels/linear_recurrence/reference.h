// The specification of linear_recurrence.h: scalar, serial, in double.
#pragma once

#include <cmath>

#include "lithe/kernels/linear_recurrence/linear_recurrence.h"
#include "lithe/kernels/scalar.h"

namespace lithe::kernels::ref {

/// One head of the arguments.
template <class T>
struct RecurrenceHead {
  const LinearRecurrenceArgs& a;
  int64_t head, K, V;

  RecurrenceHead(const LinearRecurrenceArgs& args, int64_t h) : a(args), head(h), K(args.key_dim), V(args.value_dim) {}
  int64_t at(int64_t row) const { return row * a.heads + head; }
  double scale() const { return a.normalise ? 1 : a.scale; }
  double q(int64_t row, int64_t c) const { return scale() * double(a.q.data<T>()[at(row) * K + c]); }
  double k(int64_t row, int64_t c) const { return double(a.k.data<T>()[at(row) * K + c]); }
  double v(int64_t row, int64_t m) const { return double(a.v.data<T>()[at(row) * V + m]); }
  double out(int64_t row, int64_t m) const { return double(a.out.data<T>()[at(row) * V + m]); }
  double write(int64_t row) const { return a.write ? double(a.write.data<Wide<T>>()[at(row)]) : 1; }
  double divisor(int64_t row) const { return double(a.divisors.data<Wide<T>>()[at(row)]); }
  /// Where the log of the factor on row c of the state lies.
  int64_t decay_at(int64_t row, int64_t c) const {
    if (a.log_decay.shape().rank() == 1) return head;
    return a.log_decay.cols() == a.heads ? at(row) : at(row) * K + c;
  }
  double decay(int64_t row, int64_t c) const {
    return a.log_decay ? std::exp(double(a.log_decay.data<Wide<T>>()[decay_at(row, c)])) : 1;
  }

  /// S with n as a last column: [K][V + 1].
  using State = std::vector<double>;
  int64_t width() const { return V + 1; }
  State begin(const RecurrenceSegment& s) const {
    State S(size_t(K * width()), 0.0);
    if (!s.state) return S;
    const Wide<T>* from = s.state.data<Wide<T>>() + head * recurrence_state(K, V, a.normalise);
    for (int64_t c = 0; c < K; ++c) {
      for (int64_t m = 0; m < V; ++m) S[size_t(c * width() + m)] = double(from[c * V + m]);
      if (a.normalise) S[size_t(c * width() + V)] = double(from[K * V + c]);
    }
    return S;
  }
  void end(const RecurrenceSegment& s, const State& S) const {
    if (!s.state) return;
    Wide<T>* to = s.state.data<Wide<T>>() + head * recurrence_state(K, V, a.normalise);
    for (int64_t c = 0; c < K; ++c) {
      for (int64_t m = 0; m < V; ++m) to[c * V + m] = Wide<T>(S[size_t(c * width() + m)]);
      if (a.normalise) to[K * V + c] = Wide<T>(S[size_t(c * width() + V)]);
    }
  }
  void shrink(State& S, int64_t row) const {
    if (!a.log_decay) return;
    for (int64_t c = 0; c < K; ++c)
      for (int64_t m = 0; m <= V; ++m) S[size_t(c * width() + m)] *= decay(row, c);
  }
  /// What is written beside b k, of a state that has shrunk: v, or v - k S; 1 in the last column.
  State written(const State& S, int64_t row) const {
    State e(size_t(width()), 1.0);
    for (int64_t m = 0; m < V; ++m) {
      e[size_t(m)] = v(row, m);
      for (int64_t c = 0; c < K && a.delta; ++c) e[size_t(m)] -= k(row, c) * S[size_t(c * width() + m)];
    }
    return e;
  }
  void add(State& S, int64_t row) const {
    const State e = written(S, row);
    for (int64_t c = 0; c < K; ++c)
      for (int64_t m = 0; m <= V; ++m) S[size_t(c * width() + m)] += write(row) * k(row, c) * e[size_t(m)];
  }
  State read(const State& S, int64_t row) const {
    State o(size_t(width()), 0.0);
    for (int64_t c = 0; c < K; ++c)
      for (int64_t m = 0; m <= V; ++m) o[size_t(m)] += q(row, c) * S[size_t(c * width() + m)];
    return o;
  }
};

template <class T>
void linear_recurrence(const LinearRecurrenceArgs& a) {
  for (const RecurrenceSegment& s : a.segments)
    for (int64_t head = 0; head < a.heads; ++head) {
      const RecurrenceHead<T> h(a, head);
      auto S = h.begin(s);
      const auto give = [&](int64_t row) {
        const auto o = h.read(S, row);
        double d = 1;
        if (a.normalise) {
          d = o[size_t(h.V)];
          if (d < a.floor) d += a.floor;
          a.divisors.data<Wide<T>>()[h.at(row)] = Wide<T>(d);
        }
        for (int64_t m = 0; m < h.V; ++m) a.out.data<T>()[h.at(row) * h.V + m] = T(o[size_t(m)] / d);
      };
      for (int64_t row = s.row; row < s.row + s.rows; ++row) {
        h.shrink(S, row);
        h.add(S, row);
        if (a.causal) give(row);
      }
      for (int64_t row = s.row; row < s.row + s.rows && !a.causal; ++row) give(row);
      if (s.rows > 0) h.end(s, S);
    }
}

// R: the gradient of the state after a row, from all that reads it later. With dn = dout / d and, normalised, - dout .
// out / d beside it in the last column:
//   R += q^T dn;   dq = S dn;   e = v (- k S');   du = b k R;   dk = b R e (- du S');   db = (k R) . e;   dv = du
//   R <- a (R (- k^T du));   dlog_decay = a R . S before the row
template <class T>
void linear_recurrence_grad(const LinearRecurrenceGradArgs& g) {
  const LinearRecurrenceArgs& a = g.forward;
  const bool constant = a.log_decay && a.log_decay.shape().rank() == 1;
  if (g.dlog_decay && constant && !g.accumulate_dlog_decay) fill_zero(g.dlog_decay);
  for (const RecurrenceSegment& s : a.segments)
    for (int64_t head = 0; head < a.heads; ++head) {
      const RecurrenceHead<T> h(a, head);
      const int64_t K = h.K, V = h.V, W = h.width();
      using State = typename RecurrenceHead<T>::State;
      std::vector<State> S{h.begin(s)};  // before each row, and after the last
      for (int64_t row = s.row; row < s.row + s.rows; ++row) {
        S.push_back(S.back());
        h.shrink(S.back(), row);
        h.add(S.back(), row);
      }
      const auto gradient_of_out = [&](int64_t row) {
        State dn(size_t(W), 0.0);
        const double d = a.normalise ? h.divisor(row) : 1;
        for (int64_t m = 0; m < V; ++m) {
          const double dout = double(g.dout.data<T>()[h.at(row) * V + m]);
          dn[size_t(m)] = dout / d;
          if (a.normalise) dn[size_t(V)] -= dout * h.out(row, m) / d;
        }
        return dn;
      };
      State R(size_t(K * W), 0.0);
      const auto see = [&](int64_t row, const State& now) {
        const State dn = gradient_of_out(row);
        for (int64_t c = 0; c < K; ++c) {
          double dq = 0;
          for (int64_t m = 0; m < W; ++m) {
            dq += dn[size_t(m)] * now[size_t(c * W + m)];
            R[size_t(c * W + m)] += h.q(row, c) * dn[size_t(m)];
          }
          put(g.dq.data<T>()[h.at(row) * K + c], h.scale() * dq, g.accumulate_dq);
        }
      };
      for (int64_t row = s.row; row < s.row + s.rows && !a.causal; ++row) see(row, S.back());
      double whole = 0;
      for (int64_t i = s.rows; i-- > 0;) {
        const int64_t row = s.row + i;
        if (a.causal) see(row, S[size_t(i) + 1]);
        State shrunk = S[size_t(i)];
        h.shrink(shrunk, row);
        const State e = h.written(shrunk, row);
        State kR(size_t(W), 0.0), dk(size_t(K), 0.0);  // sums without divisors leave the last columns of R at 0
        double db = 0;
        for (int64_t m = 0; m < W; ++m) {
          for (int64_t c = 0; c < K; ++c) {
            kR[size_t(m)] += h.k(row, c) * R[size_t(c * W + m)];
            dk[size_t(c)] += h.write(row) * R[size_t(c * W + m)] * e[size_t(m)];
          }
          db += kR[size_t(m)] * e[size_t(m)];
        }
        for (int64_t m = 0; m < V; ++m) {
          const double du = h.write(row) * kR[size_t(m)];
          put(g.dv.data<T>()[h.at(row) * V + m], du, g.accumulate_dv);
          for (int64_t c = 0; c < K && a.delta; ++c) {
            dk[size_t(c)] -= du * shrunk[size_t(c * W + m)];
            R[size_t(c * W + m)] -= h.k(row, c) * du;
          }
        }
        for (int64_t c = 0; c < K; ++c) put(g.dk.data<T>()[h.at(row) * K + c], dk[size_t(c)], g.accumulate_dk);
        if (g.dwrite) put(g.dwrite.data<Wide<T>>()[h.at(row)], db, g.accumulate_dwrite);
        double all = 0;
        for (int64_t c = 0; c < K; ++c) {
          double d = 0;
          for (int64_t m = 0; m < W; ++m) d += R[size_t(c * W + m)] * shrunk[size_t(c * W + m)];
          all += d;
          if (g.dlog_decay && !constant && a.log_decay.cols() != a.heads)
            put(g.dlog_decay.data<Wide<T>>()[h.decay_at(row, c)], d, g.accumulate_dlog_decay);
        }
        whole += all;
        if (g.dlog_decay && !constant && a.log_decay.cols() == a.heads)
          put(g.dlog_decay.data<Wide<T>>()[h.decay_at(row, 0)], all, g.accumulate_dlog_decay);
        if (a.causal) h.shrink(R, row);
      }
      if (g.dlog_decay && constant) put(g.dlog_decay.data<Wide<T>>()[head], whole, true);
    }
}

}  // namespace lithe::kernels::ref
