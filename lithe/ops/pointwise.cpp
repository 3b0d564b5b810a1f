#include "lithe/ops/pointwise.h"

namespace lithe {

Var pointwise(kernels::Pointwise kind, const Var& x, bool wide) {
  const Tensor y = empty(x.shape(), wide ? wide_of(x.dtype()) : x.dtype(), x.device());
  kernels::pointwise({.kind = kind, .x = x.value(), .y = y});
  return record("pointwise", {x}, y, [kind, x](const Tensor& dy, Grads& g) {
    const auto dx = g.into(x);
    kernels::pointwise_grad({.kind = kind, .x = x.value(), .dy = dy, .dx = dx.to, .accumulate = dx.accumulate});
  });
}

}  // namespace lithe
