#include "lithe/parts/common/sinkhorn.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lithe {
namespace {

using Matrix = std::vector<double>;  // [n, n]

// The logarithm of a matrix whose rows, or columns, are divided by their sums.
Matrix divided(Matrix m, int64_t n, bool rows) {
  const auto at = [&](int64_t line, int64_t k) -> double& { return m[size_t(rows ? line * n + k : k * n + line)]; };
  for (int64_t line = 0; line < n; ++line) {
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t k = 0; k < n; ++k) most = std::max(most, at(line, k));
    for (int64_t k = 0; k < n; ++k) sum += std::exp(at(line, k) - most);
    for (int64_t k = 0; k < n; ++k) at(line, k) -= most + std::log(sum);
  }
  return m;
}

// The gradient of what divided() was given, from that of its result: exp(result) is the softmax of each line.
void undivide(Matrix& slope, const Matrix& result, int64_t n, bool rows) {
  for (int64_t line = 0; line < n; ++line) {
    double sum = 0;
    for (int64_t k = 0; k < n; ++k) sum += slope[size_t(rows ? line * n + k : k * n + line)];
    for (int64_t k = 0; k < n; ++k) {
      const auto i = size_t(rows ? line * n + k : k * n + line);
      slope[i] -= std::exp(result[i]) * sum;
    }
  }
}

}  // namespace

Var sinkhorn(const Var& logits, int64_t n, int64_t iterations) {
  const int64_t columns = logits.cols();
  check(logits.rows() == n && columns >= n, "sinkhorn", "logits must be [", n, ", at least ", n, "], got ",
        logits.shape());
  const Tensor y = empty({n, n}, logits.dtype(), logits.value().device());
  std::vector<Matrix> made;  // rows divided, columns divided, rows divided, ...
  if (!y.is_meta()) {
    Matrix now(static_cast<size_t>(n * n));
    for (int64_t i = 0; i < n * n; ++i) now[size_t(i)] = value_at(logits.value(), i / n * columns + i % n);
    for (int64_t step = 0; step < 2 * iterations; ++step)
      made.push_back(now = divided(std::move(now), n, step % 2 == 0));
    for (int64_t i = 0; i < n * n; ++i) set_value(y, i, std::exp(now[size_t(i)]));
  }
  return record("sinkhorn", {logits}, y, [=, made = std::move(made), x = logits.ref()](const Tensor& dy, Grads& g) {
    const Tensor dx = g.into_zeroed(x);
    if (dy.is_meta()) return;
    Matrix slope(static_cast<size_t>(n * n));
    for (int64_t i = 0; i < n * n; ++i) slope[size_t(i)] = value_at(dy, i) * value_at(y, i);
    for (size_t step = made.size(); step-- > 0;) undivide(slope, made[step], n, step % 2 == 0);
    for (int64_t i = 0; i < n * n; ++i) {
      const int64_t at = i / n * columns + i % n;
      set_value(dx, at, value_at(dx, at) + slope[size_t(i)]);
    }
  });
}

}  // namespace lithe
