#include "lithe/ops/norm.h"

#include "lithe/ops/basic.h"

namespace lithe {

Var plus_one(const Var& weight) {
  const Tensor ones = empty_like(weight.value());
  if (!ones.is_meta())
    for (int64_t i = 0; i < ones.numel(); ++i) set_value(ones, i, 1);
  return add(weight, Var(ones));
}

namespace {

// x, or x + residual where that is defined.
Var normalised(kernels::NormKind kind, const Var& x, const Var& residual, const Var& weight, const Var& bias,
               double eps) {
  const int64_t C = x.cols(), N = x.rows();
  check(weight.shape() == Shape{C}, "norm", "weight must be [", C, "] to match x ", x.shape(), ", got ",
        weight.shape());
  const DType stats = wide_of(x.dtype());
  Tensor y = empty_like(x.value()), mean, factor, sum;
  if (Tape::current()) {
    if (kind != kernels::NormKind::rms) mean = empty({N}, stats, x.device());
    factor = empty({N}, stats, x.device());
  }
  if (residual.defined()) sum = empty_like(x.value());
  kernels::norm({.kind = kind,
                 .x = x.value(),
                 .residual = value_or_none(residual),
                 .sum = sum,
                 .weight = weight.value(),
                 .bias = value_or_none(bias),
                 .y = y,
                 .mean = mean,
                 .scale = factor,
                 .eps = eps});
  if (!recording()) return y;
  const Tensor read = residual.defined() ? sum : x.value();
  return record("norm", {x, residual, weight, bias}, y,
                [=, x = x.ref(), residual = residual.ref(), bias = bias.ref()](const Tensor& dy, Grads& g) {
                  const bool same = bias && bias == weight.ref();  // one vector in both roles
                  // Both summands have the gradient of the sum.
                  const Tensor dsum = residual ? empty_like(dy) : Tensor();
                  const Grads::Into dx = dsum.defined() ? Grads::Into{dsum, false} : g.into(x);
                  const Tensor dweight = g.into_zeroed(weight),
                               dbias = same ? zeros(bias->shape, bias->dtype, bias->device) : g.into_zeroed(bias);
                  kernels::norm_grad({.kind = kind,
                                      .x = read,
                                      .weight = weight.value(),
                                      .mean = mean,
                                      .scale = factor,
                                      .dy = dy,
                                      .dx = dx.to,
                                      .dweight = dweight,
                                      .dbias = dbias,
                                      .eps = eps,
                                      .accumulate = dx.accumulate});
                  if (dsum.defined()) {
                    g.give(x, dsum);
                    g.give(residual, dsum);
                  }
                  if (same) g.give(bias, dbias);
                });
}

}  // namespace

Var normalise(kernels::NormKind kind, const Var& x, const Var& weight, const Var& bias, double eps) {
  return normalised(kind, x, {}, weight, bias, eps);
}

// spec: hpc.fusion | operation | one pass for residual and norm; bias and activation (linear.h) and scale, mask and
// softmax (attention.h) have theirs | TB 6.4.9
Var normalise_sum(kernels::NormKind kind, const Var& a, const Var& b, const Var& weight, const Var& bias, double eps) {
  check(a.shape() == b.shape() && a.dtype() == b.dtype(), "norm", "summands must be alike, got ", a.dtype(), " ",
        a.shape(), " and ", b.dtype(), " ", b.shape());
  if (a.ref() && a.ref() == b.ref()) return normalised(kind, add(a, b), {}, weight, bias, eps);
  return normalised(kind, a, b, weight, bias, eps);
}

}  // namespace lithe
