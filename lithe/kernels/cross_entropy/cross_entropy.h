// Softmax cross-entropy of rows of logits with integer labels (spec train.nll).
#pragma once

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// losses[n] = -sum_v q[v] log softmax(logits[n,:])[v], q = (1-smoothing) onehot(labels[n]) + smoothing/V;
/// losses[n] = 0 where labels[n] < 0. logits [N,V] f64, f32 or bf16; labels i32 [N]; losses [N] f32 (f64
/// for f64). nll [N], optional: the same without smoothing (what perplexity is made of).
/// When `gradient` is set, logits are overwritten by gradient_scale * (softmax - q), 0 for unlabelled rows.
struct CrossEntropyArgs {
  Tensor logits, labels, losses, nll;
  double smoothing = 0, gradient_scale = 1;
  bool gradient = false;
};
Cost cost(const CrossEntropyArgs& args);
void cross_entropy(const CrossEntropyArgs& args);

/// y[n,:] = softmax(scale * x[n,:]) or its logarithm; y may be x. Rows [N,C], f64, f32 or bf16.
struct SoftmaxArgs {
  Tensor x, y;
  double scale = 1;
  bool log = false;
};
Cost cost(const SoftmaxArgs& args);
void softmax(const SoftmaxArgs& args);

}  // namespace lithe::kernels
