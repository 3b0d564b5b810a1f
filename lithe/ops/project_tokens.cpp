#include "lithe/ops/project_tokens.h"

#include "lithe/kernels/gemm/gemm.h"

namespace lithe {

Var project_tokens(const Var& map, const Var& x, const Sequences& sequences) {
  const int64_t rows = map.cols(), count = sequences.count();
  check(x.rows() == sequences.rows(), "project_tokens", "x ", x.shape(), " does not fit ", sequences.rows(), " rows");
  const Tensor y = zeros({count * rows, x.cols()}, x.dtype(), x.device());
  for (int64_t b = 0; b < count; ++b) {
    const int64_t length = sequences.length(b);
    check(length <= map.rows(), "project_tokens", "a sequence of ", length, " tokens is longer than the map's ",
          map.rows());
    if (length == 0) continue;
    kernels::gemm({.a = map.value().slice(0, length),
                   .b = x.value().slice(sequences.offset(b), sequences.offset(b + 1)),
                   .c = y.slice(b * rows, (b + 1) * rows),
                   .transpose_a = true});
  }
  return record(
      "project_tokens", {map, x}, y,
      [=, from = x.value(), by = map.value(), map = map.ref(), x = x.ref()](const Tensor& dy, Grads& g) {
        const Tensor dmap = g.wants(map) ? g.into_zeroed(map) : Tensor();
        const auto dx = g.into(x);
        for (int64_t b = 0; b < count; ++b) {
          const int64_t begin = sequences.offset(b), end = sequences.offset(b + 1), length = end - begin;
          if (length == 0) continue;
          const Tensor dy_b = dy.slice(b * rows, (b + 1) * rows);
          if (dmap)
            kernels::gemm({.a = from.slice(begin, end),
                           .b = dy_b,
                           .c = dmap.slice(0, length),
                           .transpose_b = true,
                           .accumulate = true});
          if (dx)
            kernels::gemm(
                {.a = by.slice(0, length), .b = dy_b, .c = dx.to.slice(begin, end), .accumulate = dx.accumulate});
        }
      });
}

}  // namespace lithe
