#include "lithe/ops/feature_map.h"

#include <algorithm>
#include <cmath>

#include "lithe/base/random.h"
#include "lithe/ops/basic.h"
#include "lithe/ops/cumulative_softmax.h"
#include "lithe/ops/linear.h"

namespace lithe {
namespace {

using Kind = kernels::FeatureMapArgs::Kind;

Var features(kernels::FeatureMapArgs args, const Var& x, const Var& shift) {
  args.x = x.value(), args.y = empty_like(x.value());
  if (shift.defined()) args.shift = shift.value();
  kernels::feature_map(args);
  return record(
      "feature_map", {x, shift}, args.y,
      [kind = args.kind, heads = args.heads, y = args.y, x = x.ref(), shift = shift.ref()](const Tensor& dy, Grads& g) {
        const auto dx = x ? g.into(x) : Grads::Into{empty_like(y), false};
        const Tensor dshift = shift ? empty(shift->shape, shift->dtype, shift->device) : Tensor();
        kernels::feature_map_grad({.kind = kind,
                                   .y = y,
                                   .dy = dy,
                                   .dx = dx.to,
                                   .dshift = dshift,
                                   .heads = heads,
                                   .accumulate = dx.accumulate});
        if (shift) g.give(shift, dshift);
      });
}

/// The largest of products - squares of each sequence and head, beside every row: [N, heads].
Tensor largest(const Tensor& products, const Tensor& squares, int64_t heads, const Sequences& sequences) {
  const Tensor out = empty(squares.shape(), squares.dtype(), squares.device());
  if (out.is_meta()) return out;
  const int64_t m = products.cols() / heads;
  dispatch_float(products.dtype(), [&]<class T>() {
    const T* x = products.data<T>();
    for (int64_t b = 0; b < sequences.count(); ++b)
      for (int64_t head = 0; head < heads; ++head) {
        double most = -INFINITY;
        for (int64_t row = sequences.offset(b); row < sequences.offset(b + 1); ++row) {
          double in_row = -INFINITY;
          for (int64_t c = 0; c < m; ++c) in_row = std::max(in_row, double(x[(row * heads + head) * m + c]));
          most = std::max(most, in_row - value_at(squares, row * heads + head));
        }
        for (int64_t row = sequences.offset(b); row < sequences.offset(b + 1); ++row)
          set_value(out, row * heads + head, most);
      }
  });
  return out;
}

struct Exponents {
  Var products, squares;  // [N, heads*m], [N, heads]
  kernels::FeatureMapArgs args;
};
Exponents exponents(const Var& x, const Tensor& directions, int64_t heads) {
  const int64_t d = directions.rows(), m = directions.cols(), N = x.rows();
  check(x.cols() == heads * d, "random_features", "x must be [N, heads*d] of ", heads, " heads to match directions ",
        directions.shape(), ", got ", x.shape());
  const double root = std::sqrt(double(d));
  const Var products = linear(scale(reshape(x, {N * heads, d}), 1 / std::sqrt(root)), Var(directions));
  Exponents out{reshape(products, {N, heads * m}), head_dot(x, x, heads, 0.5 / root), {}};
  out.args.kind = Kind::exponential, out.args.heads = heads, out.args.factor = 1 / std::sqrt(double(m));
  return out;
}

}  // namespace

Var softmax_features(const Var& x, int64_t heads) {
  kernels::FeatureMapArgs args;
  args.heads = heads;
  return features(args, x, {});
}

// spec: kernel.favor | operation | positive orthogonal random features whose products are e^(q.k / sqrt(d_h)) in the
// mean | TB 6.4.3(2); Choromanski et al. 2021
Var random_features(const Var& x, const Tensor& directions, int64_t heads, bool centre) {
  Exponents e = exponents(x, directions, heads);
  e.args.centre = centre;
  return features(e.args, e.products, centre ? Var(e.squares.value()) : e.squares);
}

Var random_features(const Var& x, const Tensor& directions, int64_t heads, const Sequences& sequences) {
  check(sequences.rows() == x.rows(), "random_features", "x ", x.shape(), " does not fit the ", sequences.rows(),
        " rows of ", sequences.count(), " sequences");
  const Exponents e = exponents(x, directions, heads);
  const Var most(largest(e.products.value(), e.squares.value(), heads, sequences));
  return features(e.args, e.products, add(e.squares, most));
}

Tensor orthogonal_directions(int64_t d, int64_t m, uint64_t seed, int64_t layer) {
  const RandomKey key{.seed = seed, .layer = uint32_t(layer + 1), .purpose = purpose_of("orthogonal_directions")};
  const Tensor out = empty({d, m}, DType::f64);
  double* x = out.data<double>();
  for (int64_t i = 0; i < d * m; ++i) x[i] = random_normal(key, uint64_t(i));
  const auto dot = [&](int64_t a, int64_t b) {
    double sum = 0;
    for (int64_t c = 0; c < d; ++c) sum += x[c * m + a] * x[c * m + b];
    return sum;
  };
  for (int64_t j = 0; j < m; ++j) {
    const int64_t block = j / d * d;
    const double length = std::sqrt(dot(j, j));
    for (int round = 0; round < 2; ++round)  // the second time against rounding
      for (int64_t i = block; i < j; ++i) {
        const double part = dot(j, i) / dot(i, i);
        for (int64_t c = 0; c < d; ++c) x[c * m + j] -= part * x[c * m + i];
      }
    const double left = std::sqrt(dot(j, j));
    for (int64_t c = 0; c < d; ++c) x[c * m + j] *= length / left;
  }
  return out;
}

}  // namespace lithe
