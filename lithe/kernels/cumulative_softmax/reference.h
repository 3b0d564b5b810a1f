// The specification of cumulative_softmax.h: scalar, serial, in double.
//   w[i,j] = e^s[j] / sum_j' e^s[j'] over the rows that i sees,   out[i] = sum_j w[i,j] v[j],   lse[i] = log sum_j'
//   e^s[j'] dv[j] = sum_i w[i,j] dout[i],   ds[j] = sum_i w[i,j] dout[i] . (v[j] - out[i])
#pragma once

#include <cmath>
#include <limits>

#include "lithe/kernels/cumulative_softmax/cumulative_softmax.h"
#include "lithe/kernels/scalar.h"

namespace lithe::kernels::ref {

/// The running sums of one head: numerator and denominator relative to e^maximum.
struct RunningSoftmax {
  std::vector<double> numerator;
  double maximum = -std::numeric_limits<double>::infinity(), denominator = 0;

  explicit RunningSoftmax(int64_t channels) : numerator(size_t(channels), 0.0) {}
  template <class T>
  void add(double s, const T* v) {
    const double now = s > maximum || std::isnan(s) ? s : maximum,
                 shrink = denominator > 0 ? std::exp(maximum - now) : 0, weight = std::exp(s - now);
    for (size_t c = 0; c < numerator.size(); ++c) numerator[c] = numerator[c] * shrink + weight * double(v[c]);
    denominator = denominator * shrink + weight;
    maximum = now;
  }
};

template <class T>
void cumulative_softmax(const CumulativeSoftmaxArgs& a) {
  const int64_t heads = a.s.cols(), C = a.v.cols() / heads;
  const Wide<T>* s = a.s.data<Wide<T>>();
  const T* v = a.v.data<T>();
  T* out = a.out.data<T>();
  Wide<T>* lse = data_or_null<Wide<T>>(a.lse);
  for (const CumulativeSegment& segment : a.segments)
    for (int64_t head = 0; head < heads; ++head) {
      RunningSoftmax sums(C);
      Wide<T>* state = segment.state ? segment.state.data<Wide<T>>() + head * (C + 2) : nullptr;
      if (state && state[C + 1] > 0) {
        for (int64_t c = 0; c < C; ++c) sums.numerator[size_t(c)] = double(state[c]);
        sums.maximum = double(state[C]);
        sums.denominator = double(state[C + 1]);
      }
      const auto write = [&](int64_t row) {
        const int64_t at = row * heads + head;
        for (int64_t c = 0; c < C; ++c) out[at * C + c] = T(sums.numerator[size_t(c)] / sums.denominator);
        if (lse) lse[at] = Wide<T>(sums.maximum + std::log(sums.denominator));
      };
      const int64_t end = segment.row + segment.rows;
      for (int64_t row = segment.row; row < end; ++row) {
        sums.add(double(s[row * heads + head]), v + (row * heads + head) * C);
        if (a.causal) write(row);
      }
      for (int64_t row = segment.row; row < end && !a.causal; ++row) write(row);
      if (!state || segment.rows == 0) continue;
      for (int64_t c = 0; c < C; ++c) state[c] = Wide<T>(sums.numerator[size_t(c)]);
      state[C] = Wide<T>(sums.maximum);
      state[C + 1] = Wide<T>(sums.denominator);
    }
}

// R[j] = sum_i e^(lse[j] - lse[i]) dout[i] over the i that see j, and c[j] the same of dout[i] . out[i]:
//   dv[j] (+)= e^(s[j] - lse[j]) R[j],   ds[j] (+)= e^(s[j] - lse[j]) (R[j] . v[j] - c[j])
template <class T>
void cumulative_softmax_grad(const CumulativeSoftmaxGradArgs& g) {
  const CumulativeSoftmaxArgs& a = g.forward;
  const int64_t heads = a.s.cols(), C = a.v.cols() / heads;
  const Wide<T>*s = a.s.data<Wide<T>>(), *lse = a.lse.data<Wide<T>>();
  const T *v = a.v.data<T>(), *out = a.out.data<T>(), *dout = g.dout.data<T>();
  Wide<T>* ds = g.ds.data<Wide<T>>();
  T* dv = g.dv.data<T>();
  for (const CumulativeSegment& segment : a.segments)
    for (int64_t head = 0; head < heads; ++head) {
      std::vector<double> R(size_t(C), 0.0);
      double c = 0;
      const auto gather = [&](int64_t row) {
        const int64_t at = row * heads + head;
        const double decay =
            row + 1 < segment.row + segment.rows ? std::exp(double(lse[at]) - double(lse[at + heads])) : 0;
        c *= decay;
        for (int64_t m = 0; m < C; ++m) {
          R[size_t(m)] = R[size_t(m)] * decay + double(dout[at * C + m]);
          c += double(dout[at * C + m]) * double(out[at * C + m]);
        }
      };
      const auto write = [&](int64_t row) {
        const int64_t at = row * heads + head;
        const double weight = std::exp(double(s[at]) - double(lse[at]));
        double dot = 0;
        for (int64_t m = 0; m < C; ++m) {
          dot += R[size_t(m)] * double(v[at * C + m]);
          put(dv[at * C + m], weight * R[size_t(m)], g.accumulate_dv);
        }
        put(ds[at], weight * (dot - c), g.accumulate_ds);
      };
      for (int64_t row = segment.row + segment.rows; row-- > segment.row;) {
        gather(row);
        if (a.causal) write(row);
      }
      for (int64_t row = segment.row; row < segment.row + segment.rows && !a.causal; ++row) write(row);
    }
}

}  // namespace lithe::kernels::ref
