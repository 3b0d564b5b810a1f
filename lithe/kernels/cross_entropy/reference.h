// The specification of cross_entropy.h: scalar, serial, in double.
#pragma once

#include <cmath>
#include <limits>

#include "lithe/kernels/cross_entropy/cross_entropy.h"
#include "lithe/kernels/scalar.h"

namespace lithe::kernels::ref {

// log sum_c exp(scale x[c]) = top + log_sum. They stay apart, because their sum would round away what large
// logits share. For a row of -inf top is 0 and log_sum is -inf.
struct LogSumExp {
  double top, log_sum;
};
template <class T>
LogSumExp log_sum_exp(const T* x, int64_t C, double scale) {
  const double lowest = -std::numeric_limits<double>::infinity();
  double top = lowest, sum = 0;
  for (int64_t c = 0; c < C; ++c) top = scale * double(x[c]) > top ? scale * double(x[c]) : top;
  if (top == lowest) top = 0;
  for (int64_t c = 0; c < C; ++c) sum += std::exp(scale * double(x[c]) - top);
  return {top, std::log(sum)};
}

// lse = log sum_v exp x[v];   losses[n] = lse - sum_v q[v] x[v],   nll[n] = lse - x[label]
// q = (1-smoothing) onehot(label) + smoothing/V;   x[v] = gradient_scale (exp(x[v] - lse) - q[v]) when asked for
template <class T>
void cross_entropy(const CrossEntropyArgs& a) {
  const int64_t N = a.logits.rows(), V = a.logits.cols();
  T* x = a.logits.data<T>();
  const int32_t* labels = a.labels.data<int32_t>();
  Wide<T>*losses = a.losses.data<Wide<T>>(), *nll = data_or_null<Wide<T>>(a.nll);
  const double each = a.smoothing / double(V);
  for (int64_t n = 0; n < N; ++n, x += V) {
    const int32_t label = labels[n];
    if (label < 0) {
      losses[n] = 0;
      if (nll) nll[n] = 0;
      if (a.gradient)
        for (int64_t v = 0; v < V; ++v) x[v] = T(0.0);
      continue;
    }
    const LogSumExp lse = log_sum_exp(x, V, 1.0);
    const double plain = lse.log_sum + (lse.top - double(x[label]));
    double uniform = 0;
    if (a.smoothing > 0)
      for (int64_t v = 0; v < V; ++v) uniform += lse.log_sum + (lse.top - double(x[v]));
    losses[n] = Wide<T>((1 - a.smoothing) * plain + each * uniform);
    if (nll) nll[n] = Wide<T>(plain);
    if (a.gradient)
      for (int64_t v = 0; v < V; ++v) {
        const double p = std::exp((double(x[v]) - lse.top) - lse.log_sum);
        x[v] = T(a.gradient_scale * (p - each - (v == label ? 1 - a.smoothing : 0)));
      }
  }
}

// y = exp(scale x - lse), or scale x - lse;   a row of -inf gives 0, or -inf
template <class T>
void softmax(const SoftmaxArgs& a) {
  const int64_t N = a.x.rows(), C = a.x.cols();
  const T* x = a.x.data<T>();
  T* y = a.y.data<T>();
  for (int64_t n = 0; n < N; ++n, x += C, y += C) {
    const LogSumExp lse = log_sum_exp(x, C, a.scale);
    const double taken = std::isinf(lse.log_sum) ? 0 : lse.log_sum;
    for (int64_t c = 0; c < C; ++c) {
      const double log_p = (a.scale * double(x[c]) - lse.top) - taken;
      y[c] = T(a.log ? log_p : std::exp(log_p));
    }
  }
}

}  // namespace lithe::kernels::ref
