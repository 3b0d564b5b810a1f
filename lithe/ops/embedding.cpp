#include "lithe/ops/embedding.h"

#include "lithe/kernels/elementwise/elementwise.h"
#include "lithe/kernels/embedding/embedding.h"
#include "lithe/kernels/quantized_product/quantized_product.h"

namespace lithe {
namespace {

void check_ids(const char* op, const Tensor& ids, int64_t bound, MissingIds missing) {
  check(ids.dtype() == DType::i32, op, "ids must be i32, got ", ids.dtype());
  if (ids.is_meta()) return;
  const int32_t* at = ids.data<int32_t>();
  const int32_t least = missing == MissingIds::no_row ? -1 : 0;
  for (int64_t i = 0; i < ids.numel(); ++i)
    check(at[i] >= least && at[i] < bound, op, "id ", at[i], " at row ", i, " is outside the table of ", bound,
          " rows");
}

}  // namespace

// Sums are of f32 or f64: those of a bf16 gradient are rounded once they are done.
void give_to_rows(Grads& g, const GradRef& x, const Tensor& dy, const Tensor& ids, double factor, int64_t padding) {
  if (!g.wants(x)) return;
  const bool narrow = x->dtype == DType::bf16;
  const Tensor sums = narrow ? zeros(x->shape, DType::f32, x->device) : g.into_zeroed(x);
  kernels::scatter_add({.dout = dy, .ids = ids, .dtable = sums, .scale = factor, .skip = padding});
  if (!narrow) return;
  const auto dx = g.into(x);
  kernels::add({.a = sums, .b = dx.accumulate ? dx.to : Tensor(), .out = dx.to});
}

// spec: embed.token | embedding | lookup of table rows, padding row without gradient | TB 6.1.1
Var embed(const Var& table, const Tensor& ids, DType dtype, double factor, int64_t padding, MissingIds missing) {
  check(table.shape().rank() == 2, "embed", "the table must be [V,D], got ", table.shape());
  check_ids("embed", ids, table.dim(0), missing);
  Tensor out = empty({ids.numel(), table.dim(1)}, dtype, table.device());
  if (const kernels::PackedMatrix* q = table.packed()) {
    if (!q->by_rows) throw PackedMismatch(*q, PackedMismatch::Needs::rows);
    kernels::packed_gather({.table = q, .ids = ids, .out = out, .scale = factor});
    return out;
  }
  kernels::gather({.table = table.value(), .ids = ids, .out = out, .scale = factor});
  return record("embed", {table}, out, [table = table.ref(), ids, factor, padding](const Tensor& dy, Grads& g) {
    give_to_rows(g, table, dy, ids, factor, padding);
  });
}

Var add_rows(const Var& x, const Var& table, const Tensor& positions, MissingIds missing) {
  check(x.cols() == table.dim(1) && x.rows() == positions.numel(), "add_rows", "x ", x.shape(),
        " does not fit the table ", table.shape(), " and ", positions.numel(), " positions");
  check_ids("positions", positions, table.dim(0), missing);
  Tensor out = clone(x.value());
  kernels::gather({.table = table.value(), .ids = positions, .out = out, .accumulate = true});
  return record("add_rows", {x, table}, out, [x = x.ref(), table = table.ref(), positions](const Tensor& dy, Grads& g) {
    give_to_rows(g, table, dy, positions);
    g.give(x, dy);
  });
}

}  // namespace lithe
