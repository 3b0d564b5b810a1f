#include "lithe/ops/soft_cross_entropy.h"

#include <algorithm>
#include <vector>

#include "lithe/kernels/cross_entropy/cross_entropy.h"
#include "lithe/kernels/elementwise/elementwise.h"

namespace lithe {
namespace {

constexpr double kNegligible = -1e30;

// Sum over rows with a label of a[n,:] . b[n,:].
double row_dots(const Tensor& a, const Tensor& b, const Tensor& labels) {
  kernels::book_cost("row_dots", {2.0 * double(a.numel()), double(a.bytes() + b.bytes())});
  if (a.is_meta()) return 0;
  double total = 0;
  dispatch_float(a.dtype(), [&]<class T>() {
    const T *x = a.data<T>(), *y = b.data<T>();
    const int64_t columns = a.cols();
    for (int64_t n = 0; n < a.rows(); ++n) {
      if (labels.data<int32_t>()[n] < 0) continue;
      double of_row = 0;
      for (int64_t c = n * columns; c < (n + 1) * columns; ++c) of_row += double(x[c]) * double(y[c]);
      total += of_row;
    }
  });
  return total;
}

// Overwrites logits by softmax - onehot(label), and returns the sum of -log softmax[label].
double label_loss(const Tensor& logits, const Tensor& labels, int64_t& counted) {
  const Tensor losses = empty({logits.rows()}, logits.dtype(), logits.device());
  kernels::cross_entropy({.logits = logits, .labels = labels, .losses = losses, .nll = {}, .gradient = true});
  double total = 0;
  counted = 0;
  for (int64_t n = 0; !losses.is_meta() && n < losses.numel(); ++n) {
    if (labels.data<int32_t>()[n] < 0) continue;
    total += value_at(losses, n);
    ++counted;
  }
  return total;
}

// Of each row with a label the place of its largest number, -1 without.
Tensor places_of_largest(const Tensor& x, const Tensor& labels) {
  const Tensor out = empty({x.rows()}, DType::i32, x.device());
  kernels::book_cost("places_of_largest", {double(x.numel()), double(x.bytes() + out.bytes())});
  if (x.is_meta()) return out;
  dispatch_float(x.dtype(), [&]<class T>() {
    for (int64_t n = 0; n < x.rows(); ++n) {
      const T* row = x.data<T>() + n * x.cols();
      out.data<int32_t>()[n] =
          labels.data<int32_t>()[n] < 0 ? -1 : int32_t(std::max_element(row, row + x.cols()) - row);
    }
  });
  return out;
}

Tensor as(const Tensor& x, DType dtype, double alpha) {
  const Tensor out = empty(x.shape(), dtype, x.device());
  kernels::add({.a = x, .b = {}, .out = out, .alpha = alpha});
  return out;
}

}  // namespace

// With any place c of a row, softmax = (softmax - onehot(c)) + onehot(c): what the cross-entropy kernel leaves of both
// rows differs by softmax(x) - softmax(other), and -sum_v p[v] log softmax(x)[v] is x's loss at c less the product of
// other's (softmax - onehot(c)) with x. With c where other is largest nothing cancels.
LossSums soft_rows(const Tensor& x, const Tensor& other, const Tensor& labels, bool divergence) {
  LossSums out;
  const Tensor before = divergence ? clone(other) : Tensor(), places = places_of_largest(other, labels);
  const double other_nll = label_loss(other, places, out.labels);
  const double entropy = divergence ? other_nll - row_dots(other, before, places) : 0;
  const double crossed = row_dots(other, x, places);
  out.loss = out.nll = label_loss(x, places, out.labels) - crossed - entropy;
  kernels::add({.a = x, .b = other, .out = x, .alpha = 1, .beta = -1});
  return out;
}

// spec: kd.word | distillation | cross-entropy with a teacher's softmax, with a temperature | TB Eq 6.195
Var soft_cross_entropy(const Var& x, const SoftLabels& other, const Tensor& labels, double scale, LossSums* sums) {
  check(x.shape() == other.logits.shape(), "soft_cross_entropy", "logits are ", x.shape(), ", the other model's ",
        other.logits.shape());
  check(labels.dtype() == DType::i32 && labels.numel() == x.rows(), "soft_cross_entropy", "labels must be i32 [",
        x.rows(), "], got ", labels.dtype(), labels.shape());
  check(other.temperature > 0, "soft_cross_entropy", "the temperature must be above 0, not ", other.temperature);
  const DType type = wide_of(x.dtype());
  const double tau = other.temperature;
  const Tensor work = as(x.value(), type, 1 / tau);
  LossSums mine = soft_rows(work, as(other.logits, type, 1 / tau), labels, other.divergence);
  mine.loss *= tau * tau, mine.nll *= tau * tau;
  if (sums) *sums = mine;
  const Tensor loss = empty({1}, type, x.device());
  if (!loss.is_meta()) set_value(loss, 0, scale * mine.loss);
  return record("soft_cross_entropy", {x}, loss, [x = x.ref(), work, by = scale * tau](const Tensor& dy, Grads& g) {
    const auto dx = g.into(x);
    kernels::add({.a = work,
                  .b = dx.accumulate ? dx.to : Tensor(),
                  .out = dx.to,
                  .alpha = by * (dy.is_meta() ? 1 : value_at(dy, 0))});
  });
}

void keep_largest(const Tensor& x, int64_t k) {
  check(k >= 1, "keep_largest", "at least one logit must stay, not ", k);
  kernels::book_cost("keep_largest", {double(x.numel()), 2.0 * double(x.bytes())});
  if (x.is_meta() || k >= x.cols()) return;
  const int64_t columns = x.cols();
  std::vector<int32_t> order(static_cast<size_t>(columns));
  dispatch_float(x.dtype(), [&]<class T>() {
    for (int64_t n = 0; n < x.rows(); ++n) {
      T* row = x.data<T>() + n * columns;
      for (int64_t c = 0; c < columns; ++c) order[size_t(c)] = int32_t(c);
      std::nth_element(order.begin(), order.begin() + k, order.end(),
                       [&](int32_t a, int32_t b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
      for (int64_t c = k; c < columns; ++c) row[order[size_t(c)]] = T(kNegligible);
    }
  });
}

}  // namespace lithe
