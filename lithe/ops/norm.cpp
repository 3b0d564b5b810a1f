#include "lithe/ops/norm.h"

#include "lithe/ops/basic.h"

namespace lithe {

Var plus_one(const Var& weight) {
  const Tensor ones = empty_like(weight.value());
  if (!ones.is_meta())
    for (int64_t i = 0; i < ones.numel(); ++i) set_value(ones, i, 1);
  return add(weight, Var(ones));
}

Var normalise(kernels::NormKind kind, const Var& x, const Var& weight, const Var& bias, double eps) {
  const int64_t C = x.cols(), N = x.rows();
  check(weight.shape() == Shape{C}, "norm", "weight must be [", C, "] to match x ", x.shape(), ", got ",
        weight.shape());
  const DType stats = wide_of(x.dtype());
  Tensor y = empty_like(x.value()), mean, factor;
  if (Tape::current()) {
    if (kind != kernels::NormKind::rms) mean = empty({N}, stats, x.device());
    factor = empty({N}, stats, x.device());
  }
  kernels::norm({.kind = kind,
                 .x = x.value(),
                 .weight = weight.value(),
                 .bias = value_or_none(bias),
                 .y = y,
                 .mean = mean,
                 .scale = factor,
                 .eps = eps});
  if (!recording()) return y;
  return record("norm", {x, weight, bias}, y, [=, bias = bias.ref()](const Tensor& dy, Grads& g) {
    const auto dx = g.into(x);
    const bool same = bias && bias == weight.ref();  // one vector in both roles
    const Tensor dweight = g.into_zeroed(weight),
                 dbias = same ? zeros(bias->shape, bias->dtype, bias->device) : g.into_zeroed(bias);
    kernels::norm_grad({.kind = kind,
                        .x = x.value(),
                        .weight = weight.value(),
                        .mean = mean,
                        .scale = factor,
                        .dy = dy,
                        .dx = dx.to,
                        .dweight = dweight,
                        .dbias = dbias,
                        .eps = eps,
                        .accumulate = dx.accumulate});
    if (same) g.give(bias, dbias);
  });
}

}  // namespace lithe
