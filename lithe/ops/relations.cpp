#include "lithe/ops/relations.h"

#include <cmath>

#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/gemm/gemm.h"
#include "lithe/ops/soft_cross_entropy.h"

namespace lithe {
namespace {

using Numbers = std::vector<double>;

Tensor loss_of(double value, DType dtype, Device device) {
  Tensor out = empty({1}, dtype, device);
  if (!out.is_meta()) set_value(out, 0, value);
  return out;
}

// Rows around their mean, and the products of each two of them.
struct Centred {
  int64_t rows, columns;
  Numbers x, gram;

  explicit Centred(const Tensor& of) : rows(of.rows()), columns(of.cols()) {
    for (int64_t i = 0; i < of.numel(); ++i) x.push_back(value_at(of, i));
    for (int64_t c = 0; c < columns; ++c) {
      double mean = 0;
      for (int64_t n = 0; n < rows; ++n) mean += x[size_t(n * columns + c)] / double(rows);
      for (int64_t n = 0; n < rows; ++n) x[size_t(n * columns + c)] -= mean;
    }
    gram.resize(size_t(rows * rows));
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j <= i; ++j) {
        double sum = 0;
        for (int64_t c = 0; c < columns; ++c) sum += x[size_t(i * columns + c)] * x[size_t(j * columns + c)];
        gram[at(i, j)] = gram[at(j, i)] = sum;
      }
  }
  size_t at(int64_t i, int64_t j) const { return size_t(i * rows + j); }
  double distance(int64_t i, int64_t j) const {
    return std::sqrt(std::max(0.0, gram[at(i, i)] + gram[at(j, j)] - 2 * gram[at(i, j)]));
  }
  // (x_i - x_j) . (x_k - x_j)
  double product_at(int64_t j, int64_t i, int64_t k) const {
    return gram[at(i, k)] - gram[at(i, j)] - gram[at(j, k)] + gram[at(j, j)];
  }
  // The gradient of the rows from that of the products.
  Numbers rows_gradient(const Numbers& of_gram) const {
    Numbers out(x.size(), 0), mean(size_t(columns), 0);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < rows; ++j) {
        const double d = of_gram[at(i, j)] + of_gram[at(j, i)];
        for (int64_t c = 0; d != 0 && c < columns; ++c) out[size_t(i * columns + c)] += d * x[size_t(j * columns + c)];
      }
    for (size_t i = 0; i < out.size(); ++i) mean[i % size_t(columns)] += out[i] / double(rows);
    for (size_t i = 0; i < out.size(); ++i) out[i] -= mean[i % size_t(columns)];
    return out;
  }
};

double huber(double d) { return std::abs(d) <= 1 ? d * d / 2 : std::abs(d) - 0.5; }
double huber_gradient(double d) { return d < -1 ? -1 : d > 1 ? 1 : d; }

double gram_loss(const Centred& x, const Centred& other, Numbers& gradient) {
  const double each = 1 / double(x.gram.size());
  double loss = 0;
  for (size_t i = 0; i < x.gram.size(); ++i) {
    const double d = x.gram[i] - other.gram[i];
    loss += each * d * d;
    gradient[i] += 2 * each * d;
  }
  return loss;
}

struct Distances {
  Numbers of_pairs;  // i < j
  double mean = 0;
  explicit Distances(const Centred& x) {
    for (int64_t j = 0; j < x.rows; ++j)
      for (int64_t i = 0; i < j; ++i) of_pairs.push_back(x.distance(i, j)), mean += of_pairs.back();
    mean /= double(of_pairs.size());
  }
  double relative(size_t pair) const { return mean > 0 ? of_pairs[pair] / mean : 0; }
};

double distance_loss(const Centred& x, const Centred& other, Numbers& gradient) {
  const Distances mine(x), others(other);
  const size_t pairs = mine.of_pairs.size();
  const double each = 1 / double(pairs);
  double loss = 0, through_mean = 0;
  Numbers of_relative;
  for (size_t p = 0; p < pairs; ++p) {
    const double d = mine.relative(p) - others.relative(p);
    loss += each * huber(d);
    of_relative.push_back(each * huber_gradient(d));
    through_mean += of_relative.back() * mine.of_pairs[p];
  }
  if (mine.mean == 0) return loss;
  size_t p = 0;
  for (int64_t j = 0; j < x.rows; ++j)
    for (int64_t i = 0; i < j; ++i, ++p) {
      if (mine.of_pairs[p] == 0) continue;
      const double of_distance = of_relative[p] / mine.mean - each * through_mean / (mine.mean * mine.mean),
                   of_square = of_distance / (2 * mine.of_pairs[p]);
      gradient[x.at(i, i)] += of_square, gradient[x.at(j, j)] += of_square, gradient[x.at(i, j)] -= 2 * of_square;
    }
  return loss;
}

double angle_loss(const Centred& x, const Centred& other, Numbers& gradient) {
  const int64_t B = x.rows;
  const double each = 1 / (double(B) * double(B - 1) * double(B - 2) / 2);
  double loss = 0;
  const auto cosine = [](const Centred& of, int64_t j, int64_t i, int64_t k) {
    const double lengths = of.distance(i, j) * of.distance(k, j);
    return lengths > 0 ? of.product_at(j, i, k) / lengths : 0;
  };
  for (int64_t j = 0; j < B; ++j)
    for (int64_t k = 0; k < B; ++k)
      for (int64_t i = 0; i < k; ++i) {
        if (i == j || k == j) continue;
        const double mine = cosine(x, j, i, k), d = mine - cosine(other, j, i, k);
        loss += each * huber(d);
        const double a = x.distance(i, j), b = x.distance(k, j), of_cosine = each * huber_gradient(d);
        if (a == 0 || b == 0 || of_cosine == 0) continue;
        const double of_product = of_cosine / (a * b), of_a = -of_cosine * mine / (2 * a * a),
                     of_b = -of_cosine * mine / (2 * b * b);  // of the squares of a and b
        gradient[x.at(i, k)] += of_product, gradient[x.at(j, j)] += of_product;
        gradient[x.at(i, j)] -= of_product, gradient[x.at(j, k)] -= of_product;
        gradient[x.at(i, i)] += of_a, gradient[x.at(j, j)] += of_a, gradient[x.at(i, j)] -= 2 * of_a;
        gradient[x.at(k, k)] += of_b, gradient[x.at(j, j)] += of_b, gradient[x.at(k, j)] -= 2 * of_b;
      }
  return loss;
}

// Columns [begin, begin + width) of rows [from, to), in `dtype`; and what was made of them, added in their place.
Tensor cut(const Tensor& x, int64_t from, int64_t to, int64_t begin, int64_t width, DType dtype) {
  const Tensor out = empty({to - from, width}, dtype, x.device());
  kernels::book_cost("cut_columns", {0, 2.0 * double(out.bytes())});
  for (int64_t n = from; !x.is_meta() && n < to; ++n)
    for (int64_t c = 0; c < width; ++c) set_value(out, (n - from) * width + c, value_at(x, n * x.cols() + begin + c));
  return out;
}
void put_back(const Tensor& x, const Tensor& part, int64_t from, int64_t begin, double alpha) {
  kernels::book_cost("cut_columns", {double(part.numel()), 3.0 * double(part.bytes())});
  for (int64_t i = 0; !x.is_meta() && i < part.numel(); ++i) {
    const int64_t at = (from + i / part.cols()) * x.cols() + begin + i % part.cols();
    set_value(x, at, value_at(x, at) + alpha * value_at(part, i));
  }
}

// a b^T / sqrt(width)
Tensor logits_of(const Tensor& a, const Tensor& b) {
  const Tensor out = empty({a.rows(), b.rows()}, a.dtype(), a.device());
  kernels::gemm({.a = a, .b = b, .c = out, .bias = {}, .transpose_b = true});
  kernels::add({.a = out, .b = {}, .out = out, .alpha = 1 / std::sqrt(double(a.cols()))});
  return out;
}

Tensor all_labelled(int64_t rows, Device device) { return zeros({rows}, DType::i32, device); }

}  // namespace

int64_t least_rows(Relation relation) { return relation == Relation::angle ? 3 : 2; }

// spec: kd.relation | distillation | distances, angles and products of rows as a teacher has them | TB 6.4.7(1)
Var relation_loss(Relation relation, const Var& x, const Tensor& other, double scale) {
  const int64_t B = x.rows(), C = x.cols();
  check(other.rows() == B, "relation", "there are ", B, " rows, and ", other.rows(), " of the other model");
  check_usage(B >= least_rows(relation), "relation", "a relation needs at least ", least_rows(relation),
              " rows, and there are ", B, "; give larger batches");
  const DType type = wide_of(x.dtype());
  const Tensor dx = empty(x.shape(), type, x.device());
  const double rows = double(B), threes = relation == Relation::angle ? 40 * rows * rows * rows : 0;
  kernels::book_cost("relation", {rows * rows * (3 * double(C) + double(other.cols())) + threes,
                                  double(x.value().bytes() + other.bytes() + dx.bytes())});
  double loss = 0;
  if (!dx.is_meta()) {
    const Centred mine(x.value()), others(other);
    Numbers gradient(mine.gram.size(), 0);
    loss = relation == Relation::distance ? distance_loss(mine, others, gradient)
           : relation == Relation::angle  ? angle_loss(mine, others, gradient)
                                          : gram_loss(mine, others, gradient);
    const Numbers of_rows = mine.rows_gradient(gradient);
    for (size_t i = 0; i < of_rows.size(); ++i) set_value(dx, int64_t(i), scale * of_rows[i]);
  }
  return record("relation", {x}, loss_of(scale * loss, type, x.device()),
                [x = x.ref(), dx](const Tensor& dy, Grads& g) {
                  const auto to = g.into(x);
                  kernels::add({.a = dx,
                                .b = to.accumulate ? to.to : Tensor(),
                                .out = to.to,
                                .alpha = dy.is_meta() ? 1 : value_at(dy, 0)});
                });
}

Var attention_relation_loss(const RelatedRows<Var>& x, const RelatedRows<Tensor>& other, const Sequences& sequences,
                            int64_t heads, double scale) {
  const int64_t N = sequences.rows(), columns = x.a.cols(), others = other.a.cols();
  check(x.a.rows() == N && x.b.rows() == N && other.a.rows() == N && other.b.rows() == N, "relation",
        "rows of both models must be those of the sequences, ", N);
  check_usage(x.b.cols() == columns && other.b.cols() == others, "relation", "rows of ", columns, " and ", x.b.cols(),
              " columns (the other model: ", others, " and ", other.b.cols(),
              ") do not meet: the heads share keys; relate queries to queries, and keys to keys");
  check_usage(heads >= 1 && columns % heads == 0 && others % heads == 0, "relation", heads,
              " relation heads do not divide ", columns, " and ", others, " columns; choose a divisor of both");
  const DType type = wide_of(x.a.dtype());
  const Tensor da = zeros(x.a.shape(), type, x.a.device()),
               db = x.b.ref() == x.a.ref() ? da : zeros(x.b.shape(), type, x.b.device());
  const int64_t width = columns / heads, other_width = others / heads;
  double loss = 0;
  const double each = scale / (double(heads) * double(std::max<int64_t>(N, 1)));
  for (int64_t s = 0; s < sequences.count(); ++s) {
    const int64_t from = sequences.offset(s), to = sequences.offset(s + 1);
    if (from == to) continue;
    const Tensor labels = all_labelled(to - from, x.a.device());
    for (int64_t h = 0; h < heads; ++h) {
      const Tensor a = cut(x.a.value(), from, to, h * width, width, type),
                   b = cut(x.b.value(), from, to, h * width, width, type);
      const Tensor mine = logits_of(a, b);
      {
        const Tensor theirs = logits_of(cut(other.a, from, to, h * other_width, other_width, type),
                                        cut(other.b, from, to, h * other_width, other_width, type));
        loss += each * soft_rows(mine, theirs, labels, true).loss;
      }
      const Tensor d = empty(a.shape(), type, a.device());
      const double by = each / std::sqrt(double(width));
      kernels::gemm({.a = mine, .b = b, .c = d, .bias = {}});
      put_back(da, d, from, h * width, by);
      kernels::gemm({.a = mine, .b = a, .c = d, .bias = {}, .transpose_a = true});
      put_back(db, d, from, h * width, by);
    }
  }
  const bool same = x.b.ref() == x.a.ref();
  return record("attention_relation", {x.a, x.b}, loss_of(loss, type, x.a.device()),
                [a = x.a.ref(), b = x.b.ref(), da, db, same](const Tensor& dy, Grads& g) {
                  const double d = dy.is_meta() ? 1 : value_at(dy, 0);
                  const auto give = [&](const GradRef& of, const Tensor& gradient) {
                    const auto to = g.into(of);
                    if (to)
                      kernels::add({.a = gradient, .b = to.accumulate ? to.to : Tensor(), .out = to.to, .alpha = d});
                  };
                  give(a, da);
                  if (!same) give(b, db);
                });
}

}  // namespace lithe
