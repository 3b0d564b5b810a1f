#include "lithe/ops/hadamard.h"

#include "lithe/kernels/hadamard/hadamard.h"

namespace lithe {

Var hadamard(const Var& x, const Var& alpha, const Var& beta, int64_t order, double scale) {
  const Tensor a = value_or_none(alpha), b = value_or_none(beta);
  Tensor out = empty({x.rows(), x.cols()}, x.dtype(), x.device());
  kernels::hadamard({.x = x.value(), .alpha = a, .beta = b, .out = out, .order = order, .scale = scale});
  // The transform is made again for alpha's gradient: the rows before it are kept, not those after it as well.
  const Tensor kept = alpha.defined() && alpha.needs_grad() ? x.value() : Tensor();
  return record(
      "hadamard", {x, alpha, beta}, out,
      [kept, a, order, scale, x = x.ref(), alpha = alpha.ref(), beta = beta.ref()](const Tensor& dy, Grads& g) {
        const auto dx = g.into(x);
        const bool same = alpha && alpha == beta;  // one vector in both roles
        const Tensor dalpha = g.into_zeroed(alpha),
                     dbeta = same ? zeros(beta->shape, beta->dtype, beta->device) : g.into_zeroed(beta);
        kernels::hadamard_grad({.x = kept,
                                .alpha = a,
                                .dout = dy,
                                .dx = dx.to,
                                .dalpha = dalpha,
                                .dbeta = dbeta,
                                .order = order,
                                .scale = scale,
                                .accumulate = dx.accumulate});
        if (same) g.give(beta, dbeta);
      });
}

}  // namespace lithe
