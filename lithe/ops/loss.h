// Losses over rows.
#pragma once

#include "lithe/autograd/var.h"

namespace lithe {

/// Sums over the labelled rows of one call, in double and in row order.
struct LossSums {
  double loss = 0;  // with smoothing
  double nll = 0;   // without
  int64_t labels = 0;
  LossSums& operator+=(const LossSums& other) {
    loss += other.loss;
    nll += other.nll;
    labels += other.labels;
    return *this;
  }
  double mean_nll() const { return nll / double(labels > 0 ? labels : 1); }
};

/// scale * sum of the cross-entropies of logits [N,V] with labels i32 [N] (negative: no label): a scalar [1].
/// `row_nll` [N], optional, receives each row's negative log-likelihood.
Var cross_entropy(const Var& logits, const Tensor& labels, double smoothing, double scale, LossSums* sums = nullptr,
                  Tensor row_nll = {});

/// cross_entropy(linear(x, w, bias, transposed)) without the logits: they are made, used and dropped in chunks of
/// rows. With a tape the gradients are taken in the same pass, so the result must be differentiated with dy = 1
/// (put factors into `scale`).
Var linear_cross_entropy(const Var& x, const Var& w, bool transposed, const Tensor& labels, double smoothing,
                         double scale, LossSums* sums = nullptr, Tensor row_nll = {}, const Var& bias = {});

/// scale * sum of (prediction - target)^2: predictions [B,1] or [B], targets f32 [B]; a scalar [1]. Every row counts as
/// labelled; loss and nll of `sums` are the sum of squares.
Var squared_error(const Var& predictions, const Tensor& targets, double scale, LossSums* sums = nullptr);

}  // namespace lithe
