#include "lithe/ops/pool.h"

#include "lithe/kernels/pool/pool.h"
#include "lithe/ops/basic.h"

namespace lithe {

// spec: app.text_encode | embedding | one row a sequence: its first or last row, the mean or the largest of its rows |
// TB 6.5.2
Var pool(const Var& x, const Sequences& sequences, const std::string& kind) {
  check(x.rows() == sequences.rows(), "pool", "x ", x.shape(), " for sequences of ", sequences.rows(), " rows");
  for (int64_t b = 0; b < sequences.count(); ++b)
    check(sequences.length(b) > 0, "pool", "sequence ", b, " is empty, so there is nothing to pool");
  if (kind == "cls") return pick_rows(x, {sequences.offsets().begin(), sequences.offsets().end() - 1});
  if (kind == "last") return pick_rows(x, sequences.last_rows());
  check(kind == "mean" || kind == "max", "pool", "kind must be cls, last, mean or max, got ", kind);
  const auto by = kind == "mean" ? kernels::Pooling::mean : kernels::Pooling::max;
  const std::vector<int64_t> offsets = sequences.offsets();
  const Tensor out = empty({sequences.count(), x.cols()}, x.dtype(), x.device());
  const Tensor rows = kind == "max" ? empty(out.shape(), DType::i32, x.device()) : Tensor();
  kernels::pool({.x = x.value(), .out = out, .rows = rows, .offsets = offsets, .kind = by});
  return record("pool", {x}, out, [x = x.ref(), rows, offsets, by](const Tensor& dy, Grads& g) {
    const auto dx = g.into(x);
    kernels::pool_grad(
        {.dout = dy, .rows = rows, .dx = dx.to, .offsets = offsets, .kind = by, .accumulate = dx.accumulate});
  });
}

}  // namespace lithe
