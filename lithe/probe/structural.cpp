#include "lithe/probe/structural.h"

#include <numeric>

#include "lithe/base/threads.h"
#include "lithe/kernels/elementwise/elementwise.h"

namespace lithe::probe {
namespace {

double sign(double x) { return double(x > 0) - double(x < 0); }

template <class T>
double squared_difference(const T* a, const T* b, int64_t k) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < k; ++c) sum += (a[c] - b[c]) * (a[c] - b[c]);
  return double(sum);
}

template <class T>
double squared_length(const T* a, int64_t k) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < k; ++c) sum += a[c] * a[c];
  return double(sum);
}

// to += factor * (a - b)
template <class T>
void add_difference(T* to, const T* a, const T* b, T factor, int64_t k) {
#pragma omp simd
  for (int64_t c = 0; c < k; ++c) to[c] += factor * (a[c] - b[c]);
}

// Sentences are divided among threads; each writes its own loss and rows, and losses are added in their order.
template <class F>
double sum_over(const Sequences& sentences, F&& loss_of) {
  std::vector<double> losses(size_t(sentences.count()), 0.0);
  parallel_for(sentences.count(), 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t s = begin; s < end; ++s) losses[size_t(s)] = loss_of(s);
  });
  return std::accumulate(losses.begin(), losses.end(), 0.0);
}

void check_gold(const char* operation, const Var& b, const Sequences& sentences, const Gold& gold, bool pairs) {
  check(sentences.count() > 0 && b.rows() == sentences.rows(), operation, "rows ", b.shape(), " for sentences of ",
        sentences.rows(), " words");
  check(int64_t(gold.size()) == sentences.count(), operation, "numbers of ", gold.size(), " trees for ",
        sentences.count(), " sentences");
  for (int64_t s = 0; s < sentences.count(); ++s) {
    const int64_t m = sentences.length(s);
    check(int64_t(gold[size_t(s)].size()) == (pairs ? m * m : m), operation, "sentence ", s, " of ", m, " words has ",
          gold[size_t(s)].size(), " numbers of its tree");
  }
}

// loss_of(s, rows, gradient or null) -> the loss of a sentence; the gradient is that of the loss, to be scaled.
template <class F>
Var sentence_loss(const char* operation, const Var& b, const Sequences& sentences, F loss_of) {
  const auto run = [=](const Tensor& rows, const Tensor& gradient) {
    return rows.dtype() == DType::f64 ? loss_of(rows.data<double>(), gradient ? gradient.data<double>() : nullptr)
                                      : loss_of(rows.data<float>(), gradient ? gradient.data<float>() : nullptr);
  };
  const Tensor out = empty({1}, b.dtype());
  set_value(out, 0, run(b.value(), Tensor()) / double(sentences.count()));
  return record(
      operation, {b}, out,
      [=, x = b.ref(), value = b.value(), count = double(sentences.count())](const Tensor& dy, Grads& g) {
        if (!g.wants(x)) return;
        const Tensor dx = zeros(value.shape(), value.dtype());
        run(value, dx);
        const auto to = g.into(x);
        kernels::add({.a = dx, .b = to.accumulate ? to.to : Tensor(), .out = to.to, .alpha = value_at(dy, 0) / count});
      });
}

}  // namespace

Var distance_loss(const Var& b, const Sequences& sentences, const Gold& distances) {
  check_gold("distance_loss", b, sentences, distances, true);
  return sentence_loss("distance_loss", b, sentences, [=, k = b.cols()]<class T>(const T* rows, T* gradient) {
    return sum_over(sentences, [&](int64_t s) {
      const int64_t m = sentences.length(s);
      const double each = 1 / double(m * m);
      const T* x = rows + sentences.offset(s) * k;
      double loss = 0;
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = i + 1; j < m; ++j) {
          const double gap =
              double(distances[size_t(s)][size_t(i * m + j)]) - squared_difference(x + i * k, x + j * k, k);
          loss += 2 * std::abs(gap) * each;  // (i, j) and (j, i)
          if (!gradient) continue;
          T* dx = gradient + sentences.offset(s) * k;
          const T factor = T(-4 * sign(gap) * each);
          add_difference(dx + i * k, x + i * k, x + j * k, factor, k);
          add_difference(dx + j * k, x + j * k, x + i * k, factor, k);
        }
      return loss;
    });
  });
}

Var depth_loss(const Var& b, const Sequences& sentences, const Gold& depths) {
  check_gold("depth_loss", b, sentences, depths, false);
  return sentence_loss("depth_loss", b, sentences, [=, k = b.cols()]<class T>(const T* rows, T* gradient) {
    return sum_over(sentences, [&](int64_t s) {
      const int64_t m = sentences.length(s);
      double loss = 0;
      for (int64_t i = 0; i < m; ++i) {
        const T* x = rows + (sentences.offset(s) + i) * k;
        const double gap = double(depths[size_t(s)][size_t(i)]) - squared_length(x, k);
        loss += std::abs(gap) / double(m);
        if (!gradient) continue;
        T* dx = gradient + (sentences.offset(s) + i) * k;
        for (int64_t c = 0; c < k; ++c) dx[c] += T(-2 * sign(gap) / double(m)) * x[c];
      }
      return loss;
    });
  });
}

std::vector<double> squared_distances(const Tensor& b) {
  const int64_t m = b.rows(), k = b.cols();
  std::vector<double> out(size_t(m * m), 0.0);
  const auto fill = [&](const auto* x) {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = i + 1; j < m; ++j)
        out[size_t(i * m + j)] = out[size_t(j * m + i)] = squared_difference(x + i * k, x + j * k, k);
  };
  b.dtype() == DType::f64 ? fill(b.data<double>()) : fill(b.data<float>());
  return out;
}

std::vector<double> squared_lengths(const Tensor& b) {
  std::vector<double> out;
  const auto fill = [&](const auto* x) {
    for (int64_t i = 0; i < b.rows(); ++i) out.push_back(squared_length(x + i * b.cols(), b.cols()));
  };
  b.dtype() == DType::f64 ? fill(b.data<double>()) : fill(b.data<float>());
  return out;
}

}  // namespace lithe::probe
