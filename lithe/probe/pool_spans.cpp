// Operations of predictors: attention within spans, weights of a mixture of layers.
#include <cmath>

#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/probe/predictor.h"

namespace lithe::probe {
namespace {

// Softmax of n numbers.
std::vector<double> softmax(const Tensor& x, int64_t begin, int64_t n) {
  std::vector<double> out;
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, value_at(x, begin + i));
  for (int64_t i = 0; i < n; ++i) sum += out.emplace_back(std::exp(value_at(x, begin + i) - most));
  for (double& p : out) p /= sum;
  return out;
}

}  // namespace

Var attentive_pool(const Var& x, const Var& scores, const Sequences& spans) {
  check(x.rows() == spans.rows() && scores.value().numel() == spans.rows() && scores.dtype() == x.dtype(),
        "attentive_pool", "rows ", x.dtype(), x.shape(), " and scores ", scores.dtype(), scores.shape(),
        " for spans of ", spans.rows(), " rows");
  const int64_t p = x.cols();
  std::vector<double> weights;  // of each row
  for (int64_t s = 0; s < spans.count(); ++s) {
    check(spans.length(s) > 0, "attentive_pool", "span ", s, " is empty");
    const std::vector<double> of = softmax(scores.value(), spans.offset(s), spans.length(s));
    weights.insert(weights.end(), of.begin(), of.end());
  }
  const Tensor out = zeros({spans.count(), p}, x.dtype());
  const auto forward = [&]<class T>(const T* rows) {
    T* y = out.data<T>();
    for (int64_t s = 0; s < spans.count(); ++s)
      for (int64_t i = spans.offset(s); i < spans.offset(s + 1); ++i)
        for (int64_t c = 0; c < p; ++c) y[s * p + c] += T(weights[size_t(i)]) * rows[i * p + c];
  };
  x.dtype() == DType::f64 ? forward(x.value().data<double>()) : forward(x.value().data<float>());
  return record("attentive_pool", {x, scores}, out,
                [=, of_x = x.ref(), of_scores = scores.ref(), value = x.value()](const Tensor& dy, Grads& g) {
                  const Tensor dx = g.into_zeroed(of_x), ds = g.into_zeroed(of_scores);
                  const auto backward = [&]<class T>(const T* rows) {
                    const T* up = dy.data<T>();
                    for (int64_t s = 0; s < spans.count(); ++s) {
                      double mean = 0;  // of the rows' products with dy
                      std::vector<double> dots;
                      for (int64_t i = spans.offset(s); i < spans.offset(s + 1); ++i) {
                        double dot = 0;
                        for (int64_t c = 0; c < p; ++c) dot += double(up[s * p + c]) * double(rows[i * p + c]);
                        dots.push_back(dot);
                        mean += weights[size_t(i)] * dot;
                        if (dx.defined())
                          for (int64_t c = 0; c < p; ++c)
                            dx.data<T>()[i * p + c] += T(weights[size_t(i)]) * up[s * p + c];
                      }
                      for (int64_t i = spans.offset(s); ds.defined() && i < spans.offset(s + 1); ++i)
                        ds.data<T>()[i] += T(weights[size_t(i)] * (dots[size_t(i - spans.offset(s))] - mean));
                    }
                  };
                  value.dtype() == DType::f64 ? backward(value.data<double>()) : backward(value.data<float>());
                });
}

Var mixture_weights(const Var& w, const Var& g) {
  const int64_t n = w.value().numel();
  check(g.value().numel() == 1 && g.dtype() == w.dtype(), "mixture_weights", "g must be one number, got ", g.shape());
  const std::vector<double> p = softmax(w.value(), 0, n);
  const double scale = value_at(g.value(), 0);
  const Tensor out = empty({n}, w.dtype());
  for (int64_t l = 0; l < n; ++l) set_value(out, l, scale * p[size_t(l)]);
  return record("mixture_weights", {w, g}, out, [=, of_w = w.ref(), of_g = g.ref()](const Tensor& dy, Grads& grads) {
    const Tensor dw = grads.into_zeroed(of_w), dg = grads.into_zeroed(of_g);
    double mean = 0;
    for (int64_t l = 0; l < n; ++l) mean += p[size_t(l)] * value_at(dy, l);
    if (dg.defined()) set_value(dg, 0, value_at(dg, 0) + mean);
    for (int64_t l = 0; dw.defined() && l < n; ++l)
      set_value(dw, l, value_at(dw, l) + scale * p[size_t(l)] * (value_at(dy, l) - mean));
  });
}

}  // namespace lithe::probe
