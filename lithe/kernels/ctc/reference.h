// The specification of lithe/kernels/ctc/ctc.h, which is also what runs: rows times labels of work beside the rows
// times channels squared of an encoder. Sequences are independent, so threads share them out.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "lithe/base/threads.h"
#include "lithe/kernels/cross_entropy/reference.h"
#include "lithe/kernels/ctc/ctc.h"

namespace lithe::kernels::ref {

// log(e^a + e^b)
inline double log_add(double a, double b) {
  const double high = std::max(a, b), low = std::min(a, b);
  return std::isinf(high) && high < 0 ? high : high + std::log1p(std::exp(low - high));
}

// States s = 0 .. 2U: blank, label 1, blank, ..., label U, blank. In logarithms, with p[t] the softmax of row t:
//   forward[0][0..1] = p[0][s];  forward[t][s] = p[t][s] (f[t-1][s] + f[t-1][s-1] + skip(s) f[t-1][s-2])
//   backward likewise from the end, without p[t] itself;  P = forward[T-1][2U] + forward[T-1][2U-1]
//   d(-log P)/d logits[t][c] = p[t][c] - sum over s of class c: forward[t][s] backward[t][s] / P
// skip(s): s is a label, and not the one before it.
// `work`: ctc_work(T, U, C) numbers.
template <class T>
double ctc_sequence(T* logits, int64_t rows, int64_t C, const int32_t* labels, int64_t U, double scale, bool gradient,
                    double* work) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  const int64_t S = 2 * U + 1;
  double *normaliser = work, *of_class = normaliser + rows, *forward = of_class + C, *backward = forward + rows * S;
  const auto class_of = [=](int64_t s) { return s % 2 ? int64_t(labels[s / 2]) : C - 1; };
  const auto skip = [=](int64_t s) { return s % 2 && s >= 3 && labels[s / 2] != labels[s / 2 - 1]; };
  const auto log_of = [=](int64_t t, int64_t s) { return double(logits[t * C + class_of(s)]) - normaliser[t]; };
  if (rows == 0) return U ? -kNever : 0;
  for (int64_t t = 0; t < rows; ++t) {
    const LogSumExp lse = log_sum_exp(logits + t * C, C, 1.0);
    normaliser[t] = lse.top + lse.log_sum;
    double *to = forward + t * S, *from = to - S;
    for (int64_t s = 0; s < S; ++s) {
      double before = t ? from[s] : s < 2 ? 0 : kNever;
      if (t && s >= 1) before = log_add(before, from[s - 1]);
      if (t && skip(s)) before = log_add(before, from[s - 2]);
      to[s] = before + log_of(t, s);
    }
  }
  const double* end = forward + (rows - 1) * S;
  const double log_p = U ? log_add(end[S - 1], end[S - 2]) : end[0];
  if (!gradient) return -log_p;
  if (log_p == kNever) {
    std::fill(logits, logits + rows * C, T(0.0));
    return -log_p;
  }
  for (int64_t t = rows - 1; t >= 0; --t) {
    double *to = backward + t * S, *from = to + S;
    const auto after = [&](int64_t s) { return from[s] + log_of(t + 1, s); };
    for (int64_t s = 0; s < S; ++s) {
      if (t + 1 == rows) {
        to[s] = s + 2 >= S ? 0 : kNever;
        continue;
      }
      to[s] = after(s);
      if (s + 1 < S) to[s] = log_add(to[s], after(s + 1));
      if (s + 2 < S && skip(s + 2)) to[s] = log_add(to[s], after(s + 2));
    }
  }
  for (int64_t t = 0; t < rows; ++t) {
    std::fill(of_class, of_class + C, 0.0);
    for (int64_t s = 0; s < S; ++s) of_class[class_of(s)] += std::exp(forward[t * S + s] + backward[t * S + s] - log_p);
    T* row = logits + t * C;
    for (int64_t c = 0; c < C; ++c) row[c] = T(scale * (std::exp(double(row[c]) - normaliser[t]) - of_class[c]));
  }
  return -log_p;
}

/// `work` [parts, each] serves the parts that sequences are shared out in.
template <class T>
void ctc(const CtcArgs& a, double* work, int64_t each, int64_t parts) {
  const int64_t C = a.logits.cols(), B = int64_t(a.offsets.size()) - 1;
  T* logits = a.logits.data<T>();
  const int32_t* labels = a.labels.data<int32_t>();
  Wide<T>* losses = a.losses.data<Wide<T>>();
  const int64_t *at = a.offsets.data(), *label_at = a.label_offsets.data();
  parallel_for(parts, 1, [=, &a](int64_t begin, int64_t end, int) {
    for (int64_t part = begin; part < end; ++part)
      for (int64_t b = B * part / parts; b < B * (part + 1) / parts; ++b)
        losses[b] =
            Wide<T>(ctc_sequence(logits + at[b] * C, at[b + 1] - at[b], C, labels + label_at[b],
                                 label_at[b + 1] - label_at[b], a.gradient_scale, a.gradient, work + part * each));
  });
}

}  // namespace lithe::kernels::ref
