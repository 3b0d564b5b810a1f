#include "lithe/ops/heads.h"

#include "lithe/kernels/gemm/gemm.h"
#include "lithe/kernels/spread/spread.h"
#include "lithe/kernels/token_map/token_map.h"
#include "lithe/ops/basic.h"

namespace lithe {

Var spread_heads(const Var& x, int64_t heads, const Var& scale, const Var& shift) {
  const Tensor s = value_or_none(scale), b = value_or_none(shift);
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

Var repeat_heads(const Var& x, int64_t kv_heads, int64_t heads) {
  check(kv_heads >= 1 && heads % kv_heads == 0 && x.cols() % kv_heads == 0, "repeat_heads", "heads ", heads,
        " and the columns of x ", x.shape(), " must be multiples of the key/value heads ", kv_heads);
  if (heads == kv_heads) return x;
  const int64_t width = x.cols() / kv_heads;
  return reshape(spread_heads(reshape(x, {x.rows() * kv_heads, width}), heads / kv_heads), {x.rows(), heads * width});
}

Tensor head_major(const Tensor& x, int64_t heads) {
  const int64_t n = x.rows(), c = x.cols() / heads;
  const Tensor out = empty({heads * n, c}, x.dtype(), x.device());
  kernels::block_copy({.x = x,
                       .out = out,
                       .blocks = heads,
                       .rows = n,
                       .cols = c,
                       .x_block = c,
                       .x_row = x.cols(),
                       .out_block = n * c,
                       .out_row = c});
  return out;
}

void to_token_major(const Tensor& x, const Tensor& out, int64_t heads, bool accumulate) {
  const int64_t n = out.rows(), c = out.cols() / heads;
  kernels::block_copy({.x = x,
                       .out = out,
                       .blocks = heads,
                       .rows = n,
                       .cols = c,
                       .x_block = n * c,
                       .x_row = c,
                       .out_block = c,
                       .out_row = out.cols(),
                       .accumulate = accumulate});
}

Var head_linear(const Var& x, const Var& w, int64_t heads, bool transposed) {
  const int64_t n = x.rows(), d = w.rows();
  check(
      heads >= 1 && w.cols() % heads == 0 && x.cols() == (transposed ? w.cols() : heads * d) && x.dtype() == w.dtype(),
      "head_linear", "w must be [d, heads*c] and x [N, ", transposed ? "heads*c" : "heads*d", "] with ", heads,
      " heads, got ", w.dtype(), w.shape(), " and ", x.dtype(), x.shape());
  const Tensor xh = head_major(x.value(), heads), wh = head_major(w.value(), heads);  // [heads*N, ..], [heads*d, c]
  const int64_t width = transposed ? d : w.cols() / heads;
  const auto head = [](const Tensor& t, int64_t rows, int64_t j) { return t.slice(j * rows, (j + 1) * rows); };
  const Tensor out = empty({n, heads * width}, x.dtype(), x.device());
  {
    const Tensor yh = empty({heads * n, width}, x.dtype(), x.device());
    for (int64_t j = 0; j < heads; ++j)
      kernels::gemm({.a = head(xh, n, j),
                     .b = head(wh, d, j),
                     .c = head(yh, n, j),
                     .transpose_b = transposed,
                     .rowwise = !training()});
    to_token_major(yh, out, heads);
  }
  return record("head_linear", {x, w}, out, [=, x = x.ref(), w = w.ref()](const Tensor& dy, Grads& g) {
    const Tensor dyh = head_major(dy, heads);
    if (g.wants(x)) {
      const Tensor dxh = empty(xh.shape(), xh.dtype(), xh.device());
      for (int64_t j = 0; j < heads; ++j)
        kernels::gemm({.a = head(dyh, n, j), .b = head(wh, d, j), .c = head(dxh, n, j), .transpose_b = !transposed});
      const auto into = g.into(x);
      to_token_major(dxh, into.to, heads, into.accumulate);
    }
    if (!g.wants(w)) return;
    const auto into = g.into(w);
    const Tensor dwh = empty(wh.shape(), into.to.dtype(), wh.device());
    for (int64_t j = 0; j < heads; ++j)
      kernels::gemm({.a = head(transposed ? dyh : xh, n, j),
                     .b = head(transposed ? xh : dyh, n, j),
                     .c = head(dwh, d, j),
                     .transpose_a = true});
    to_token_major(dwh, into.to, heads, into.accumulate);
  });
}

}  // namespace lithe
