#include "lithe/ops/heads.h"

#include "lithe/kernels/spread.h"

namespace lithe {

Var spread_heads(const Var& x, int64_t heads, const Var& scale, const Var& shift) {
  const Tensor s = scale.defined() ? scale.value() : Tensor(), b = shift.defined() ? shift.value() : Tensor();
  Tensor out = empty({x.rows(), heads * x.cols()}, x.dtype(), x.device());
  kernels::spread({.x = x.value(), .scale = s, .shift = b, .out = out, .heads = heads});
  const Tensor kept = scale.defined() && scale.needs_grad() ? x.value() : Tensor();
  return record("spread_heads", {x, scale, shift}, out,
                [kept, s, heads, x = x.ref(), scale = scale.ref(), shift = shift.ref()](const Tensor& dy, Grads& g) {
                  const auto dx = g.into(x);
                  const bool same = scale && scale == shift;  // one vector in both roles
                  const Tensor dscale = g.into_zeroed(scale),
                               dshift = same ? zeros(shift->shape, shift->dtype, shift->device) : g.into_zeroed(shift);
                  kernels::spread_grad({.x = kept,
                                        .scale = s,
                                        .dout = dy,
                                        .dx = dx.to,
                                        .dscale = dscale,
                                        .dshift = dshift,
                                        .heads = heads,
                                        .accumulate = dx.accumulate});
                  if (same) g.give(shift, dshift);
                });
}

}  // namespace lithe
