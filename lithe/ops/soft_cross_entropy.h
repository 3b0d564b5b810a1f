// Losses against the predictions of another model.
#pragma once

#include "lithe/ops/loss.h"

namespace lithe {

struct SoftLabels {
  Tensor logits;            // [N,V], f32 or f64 and no gradient; they are changed
  double temperature = 1;   // of both softmaxes; the loss is multiplied by its square
  bool divergence = false;  // KL(other || this) in place of the cross-entropy; the gradient is the same
};

/// scale * temperature^2 * the sum over rows of -sum_v softmax(other / temperature)[v] log softmax(x / temperature)[v],
/// with rows whose label is negative left out: logits x [N,V], labels i32 [N] below V. A scalar [1].
Var soft_cross_entropy(const Var& x, const SoftLabels& other, const Tensor& labels, double scale,
                       LossSums* sums = nullptr);

/// Keeps the k largest logits of each row and makes all others negligible, so that a softmax shares what is left among
/// the k: x [N,V], f32 or f64, of equal ones the first stay.
void keep_largest(const Tensor& x, int64_t k);

/// The core of soft_cross_entropy() without a tape, in place: `x` and `other` are logits already divided by the
/// temperature; afterwards x holds softmax(x) - softmax(other), zeros in rows without a label, and other is spoiled.
/// Returns the sum over rows, of the divergence where that is asked for.
LossSums soft_rows(const Tensor& x, const Tensor& other, const Tensor& labels, bool divergence);

}  // namespace lithe
