#include "lithe/ops/dense_state_space.h"

#include <cmath>
#include <numeric>

#include "lithe/tensor/linear_algebra.h"

namespace lithe {
namespace {

using Matrix = std::vector<double>;  // [n, n], row by row

Matrix read(const Tensor& x) {
  Matrix out(size_t(x.numel()));
  for (size_t i = 0; i < out.size(); ++i) out[i] = value_at(x, int64_t(i));
  return out;
}

void write(const Matrix& from, const Tensor& to) {
  for (size_t i = 0; i < from.size(); ++i) set_value(to, int64_t(i), from[i]);
}

Matrix times(Matrix x, double by) {
  for (double& v : x) v *= by;
  return x;
}

// x^T y x^T
Matrix between_transposed(const Matrix& x, const Matrix& y, int64_t n) {
  Matrix left(size_t(n * n)), out(size_t(n * n));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t k = 0; k < n; ++k)
      for (int64_t j = 0; j < n; ++j) left[size_t(i * n + j)] += x[size_t(k * n + i)] * y[size_t(k * n + j)];
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      for (int64_t k = 0; k < n; ++k) out[size_t(i * n + j)] += left[size_t(i * n + k)] * x[size_t(j * n + k)];
  return out;
}

double inner(const Matrix& x, const Matrix& y) { return std::inner_product(x.begin(), x.end(), y.begin(), 0.0); }

// A block of `from` [rows of `from_cols`], which begins at `row` and `col`, put where `to` says.
struct Place {
  int64_t cols, row = 0, col = 0;
};
void copy_block(const Matrix& from, Place f, Matrix& to, Place t, int64_t n, bool transposed = false) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      to[size_t((t.row + i) * t.cols + t.col + j)] =
          from[size_t((f.row + (transposed ? j : i)) * f.cols + f.col + (transposed ? i : j))];
}

// [[m, I], [0, 0]], whose exponential holds e^m and phi_1(m) side by side.
Matrix augmented(const Matrix& m, int64_t n) {
  Matrix out(size_t(4 * n * n));
  copy_block(m, {n}, out, {2 * n}, n);
  for (int64_t i = 0; i < n; ++i) out[size_t(i * 2 * n + n + i)] = 1;
  return out;
}

/// a, and f / D.
struct Step {
  Matrix a, f;
};
Step step_of(Discretisation kind, const Matrix& m, int64_t n) {
  Matrix identity(size_t(n * n));
  for (int64_t i = 0; i < n; ++i) identity[size_t(i * n + i)] = 1;
  Step out{identity, identity};
  switch (kind) {
    case Discretisation::euler:
      for (size_t i = 0; i < m.size(); ++i) out.a[i] += m[i];
      break;
    case Discretisation::bilinear: {
      Matrix x = identity;
      for (size_t i = 0; i < m.size(); ++i) x[i] -= m[i] / 2;
      out.f = inverse(x, n);
      for (size_t i = 0; i < m.size(); ++i) out.a[i] = 2 * out.f[i] - identity[i];  // (2 I - x) x^-1
      break;
    }
    case Discretisation::zoh: {
      const Matrix e = exponential(augmented(m, n), 2 * n);
      copy_block(e, {2 * n}, out.a, {n}, n);
      copy_block(e, {2 * n, 0, n}, out.f, {n}, n);
      break;
    }
  }
  return out;
}

// What m gets from a, and from f / D.
Matrix back(Discretisation kind, const Matrix& m, const Step& step, const Matrix& da, const Matrix& df, int64_t n) {
  if (kind == Discretisation::euler) return da;
  if (kind == Discretisation::bilinear) {
    Matrix dinverse = df;
    for (size_t i = 0; i < da.size(); ++i) dinverse[i] += 2 * da[i];
    return times(between_transposed(step.f, dinverse, n), 0.5);
  }
  // The derivative of the exponential of x^T along y is the upper right block of the exponential of [[x^T, y], [0,
  // x^T]].
  const int64_t two = 2 * n, four = 4 * n;
  const Matrix x = augmented(m, n);
  Matrix y(size_t(two * two)), both(size_t(four * four));
  copy_block(da, {n}, y, {two}, n);
  copy_block(df, {n}, y, {two, 0, n}, n);
  copy_block(x, {two}, both, {four}, two, true);
  copy_block(x, {two}, both, {four, two, two}, two, true);
  copy_block(y, {two}, both, {four, 0, two}, two);
  Matrix out(size_t(n * n));
  copy_block(exponential(both, four), {four, 0, two}, out, {n}, n);
  return out;
}

}  // namespace

// spec: ssm.continuous | operation | a continuous state space with a dense state matrix | TB Eq 6.162-6.179
std::vector<Var> discretise_dense(Discretisation kind, const Var& a, const Var& log_step) {
  const int64_t n = a.shape().rank() == 2 ? a.value().rows() : 0;
  check(n > 0 && a.value().cols() == n && log_step.value().numel() == 1, "discretise_dense",
        "a must be [n, n] and log_step [1], got ", a.shape(), " and ", log_step.shape());
  const Tensor out = empty_like(a.value()), into = empty_like(a.value());
  const auto size = [](const Tensor& log) { return std::exp(value_at(log, 0)); };
  if (!out.is_meta()) {
    const double D = size(log_step.value());
    const Step step = step_of(kind, times(read(a.value()), D), n);
    write(step.a, out);
    write(times(step.f, D), into);
  }
  return record_many(
      "discretise_dense", {a, log_step}, {out, into},
      [=, x = a.value(), log = log_step.value(), a = a.ref(), log_step = log_step.ref()](const std::vector<Tensor>& dys,
                                                                                         Grads& g) {
        const Tensor dx = a ? g.into_zeroed(a) : Tensor(), dlog = log_step ? g.into_zeroed(log_step) : Tensor();
        if (x.is_meta()) return;
        const double D = size(log);
        const Matrix rates = read(x), m = times(rates, D);
        const Step step = step_of(kind, m, n);
        const Matrix none(size_t(n * n)), da = dys[0] ? read(dys[0]) : none, df = dys[1] ? read(dys[1]) : none;
        const Matrix dm = back(kind, m, step, da, times(df, D), n);
        for (int64_t i = 0; dx && i < n * n; ++i) set_value(dx, i, value_at(dx, i) + D * dm[size_t(i)]);
        if (dlog) set_value(dlog, 0, value_at(dlog, 0) + D * (inner(rates, dm) + inner(df, step.f)));
      });
}

}  // namespace lithe
