#include "lithe/kernels/embedding/embedding.h"

#include "lithe/kernels/checks.h"
#include "lithe/kernels/embedding/reference.h"

LITHE_DECLARE_CPU(gather, GatherArgs)
LITHE_DECLARE_CPU(scatter_add, ScatterAddArgs)

namespace lithe::kernels {
namespace {

void gather_ref(const GatherArgs& a) {
  dispatch_float(a.table.dtype(),
                 [&]<class T>() { dispatch_float(a.out.dtype(), [&]<class O>() { ref::gather<T, O>(a); }); });
}
void scatter_add_ref(const ScatterAddArgs& a) {
  dispatch_float(a.dout.dtype(), [&]<class T>() { ref::scatter_add<T>(a); });
}

const char* refuse(const GatherArgs& a) {
  const char* reason = refuse_f64(a.table);
  return reason ? reason : refuse_f64(a.out);
}
const char* refuse(const ScatterAddArgs& a) { return refuse_f64(a.dout); }

// table [V,D], rows [N,D], ids [N]
void check_sizes(const char* op, const Named& table, const Named& rows, const Tensor& ids) {
  const int64_t D = table.tensor.cols();
  check(table.tensor.shape().rank() == 2, op, table.name, " must be [V,D], got ", table.tensor.shape());
  check(rows.tensor.cols() == D && rows.tensor.device() == table.tensor.device(), op, rows.name, " must have the ", D,
        " columns and the device of ", table.name, " ", table.tensor.shape(), ", got ", rows.tensor.shape());
  check_vector(op, {"ids", ids}, rows.tensor.rows(), DType::i32, rows);
}

}  // namespace

Cost cost(const GatherArgs& a) {
  // Of the table only the rows that are read count.
  return {double(a.out.numel()) * ((a.scale != 1) + a.accumulate),
          bytes_of({a.ids, a.out}) + double(a.out.numel() * size_of(a.table.dtype()))};
}

void gather(const GatherArgs& a) {
  const char* op = "gather";
  check_rows(op, {"table", a.table});
  check_rows(op, {"out", a.out});
  check_sizes(op, {"table", a.table}, {"out", a.out}, a.ids);
  check_alias(op, {"out", a.out}, {}, {{"table", a.table}, {"ids", a.ids}});
  run_kernel<GatherArgs>(op, a.table.is_meta(),
                         {LITHE_CPU_STREAMS(gather, refuse), {"ref", Isa::generic, nullptr, gather_ref}}, a);
}

Cost cost(const ScatterAddArgs& a) {
  return {double(a.dout.numel()) * (1 + (a.scale != 1)),
          bytes_of({a.ids, a.dout}) + double(a.dout.numel() * size_of(a.dtable.dtype()))};
}

void scatter_add(const ScatterAddArgs& a) {
  const char* op = "scatter_add";
  check_rows(op, {"dout", a.dout});
  check_rows(op, {"dtable", a.dtable});
  check_sizes(op, {"dtable", a.dtable}, {"dout", a.dout}, a.ids);
  check(a.dtable.dtype() == wide_of(a.dout.dtype()), op, "dtable must be ", wide_of(a.dout.dtype()), " for dout of ",
        a.dout.dtype(), ", got ", a.dtable.dtype());
  check_alias(op, {"dtable", a.dtable}, {}, {{"dout", a.dout}, {"ids", a.ids}});
  run_kernel<ScatterAddArgs>(op, a.dout.is_meta(),
                             {LITHE_CPU_STREAMS(scatter_add, refuse), {"ref", Isa::generic, nullptr, scatter_add_ref}},
                             a);
}

}  // namespace lithe::kernels
