#include "lithe/ops/pool.h"

#include "lithe/kernels/pool/pool.h"
#include "lithe/ops/basic.h"

namespace lithe {
namespace {

Var pooled(const Var& x, std::vector<int64_t> from, std::vector<int64_t> offsets, kernels::Pooling kind) {
  const Tensor out = empty({int64_t(offsets.size()) - 1, x.cols()}, x.dtype(), x.value().device());
  const Tensor rows = kind == kernels::Pooling::max ? empty(out.shape(), DType::i32, out.device()) : Tensor();
  kernels::pool({.x = x.value(), .out = out, .rows = rows, .offsets = offsets, .kind = kind, .from = from});
  return record(
      "pool", {x}, out,
      [x = x.ref(), rows, offsets = std::move(offsets), from = std::move(from), kind](const Tensor& dy, Grads& g) {
        const auto dx = g.into(x);
        kernels::pool_grad({.dout = dy,
                            .rows = rows,
                            .dx = dx.to,
                            .offsets = offsets,
                            .kind = kind,
                            .accumulate = dx.accumulate,
                            .from = from});
      });
}

}  // namespace

// spec: app.text_encode | embedding | one row a sequence: its first or last row, the mean or the largest of its rows |
// TB 6.5.2
Var pool(const Var& x, const Sequences& sequences, const std::string& kind) {
  check(x.rows() == sequences.rows(), "pool", "x ", x.shape(), " for sequences of ", sequences.rows(), " rows");
  for (int64_t b = 0; b < sequences.count(); ++b)
    check(sequences.length(b) > 0, "pool", "sequence ", b, " is empty, so there is nothing to pool");
  if (kind == "cls") return pick_rows(x, {sequences.offsets().begin(), sequences.offsets().end() - 1});
  if (kind == "last") return pick_rows(x, sequences.last_rows());
  check(kind == "mean" || kind == "max", "pool", "kind must be cls, last, mean or max, got ", kind);
  return pooled(x, {}, sequences.offsets(), kind == "mean" ? kernels::Pooling::mean : kernels::Pooling::max);
}

Var max_pool_rows(const Var& x, std::vector<int64_t> from, std::vector<int64_t> offsets) {
  check(!from.empty() && !offsets.empty(), "max_pool_rows", "there are no rows to take the largest of");
  return pooled(x, std::move(from), std::move(offsets), kernels::Pooling::max);
}

}  // namespace lithe
