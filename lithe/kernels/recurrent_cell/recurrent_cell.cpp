#include "lithe/kernels/recurrent_cell/recurrent_cell.h"

#include "lithe/kernels/checks.h"
#include "lithe/kernels/recurrent_cell/reference.h"

LITHE_DECLARE_CPU(recurrent_cell, lithe::kernels::RecurrentCellArgs)
LITHE_DECLARE_CPU(recurrent_cell_grad, lithe::kernels::RecurrentCellGradArgs)

namespace lithe::kernels {
namespace {

void cell_ref(const RecurrentCellArgs& a) {
  dispatch_float(a.hidden.dtype(), [&]<class T>() { ref::recurrent_cell<T>(a); });
}
void cell_grad_ref(const RecurrentCellGradArgs& g) {
  dispatch_float(g.forward.hidden.dtype(), [&]<class T>() { ref::recurrent_cell_grad<T>(g); });
}
const char* refuse(const RecurrentCellArgs& a) { return refuse_f64(a.hidden); }
const char* refuse(const RecurrentCellGradArgs& g) { return refuse_f64(g.forward.hidden); }

void check_part(const char* op, const Named& x, const Tensor& hidden, int64_t parts, DType type) {
  const Shape wanted{hidden.rows(), parts * hidden.cols()};
  check(x.tensor && x.tensor.shape() == wanted && x.tensor.dtype() == type, op, x.name, " must be ", type, wanted,
        " to match hidden ", hidden.shape(), ", got ", x.tensor);
}

void check_args(const char* op, const RecurrentCellArgs& a) {
  check_rows(op, {"hidden", a.hidden});
  const DType type = a.hidden.dtype(), wide = wide_of(type);
  check_part(op, {"gates", a.gates}, a.hidden, gates_of(a.kind), type);
  if (a.kind == RecurrentCell::lstm) {
    check_part(op, {"cell_before", a.cell_before}, a.hidden, 1, wide);
    check_part(op, {"cell", a.cell}, a.hidden, 1, wide);
  }
  if (a.kind == RecurrentCell::gru) {
    check_part(op, {"before", a.before}, a.hidden, 1, type);
    check_part(op, {"kept", a.kept}, a.hidden, 1, type);
  }
}

}  // namespace

Cost cost(const RecurrentCellArgs& a) {
  return {10.0 * double(a.gates.numel()),
          2 * bytes_of({a.gates}) + bytes_of({a.hidden, a.recurrent, a.before, a.kept, a.cell_before, a.cell})};
}
Cost cost(const RecurrentCellGradArgs& g) {
  const RecurrentCellArgs& a = g.forward;
  return {6.0 * double(a.gates.numel()), bytes_of({a.gates, a.before, a.kept, a.cell_before, a.cell, g.dhidden,
                                                   g.dgates, g.drecurrent, g.dbefore, g.dcell, g.dcell})};
}

void recurrent_cell(const RecurrentCellArgs& a) {
  const char* op = "recurrent_cell";
  check_args(op, a);
  if (a.kind == RecurrentCell::gru) check_part(op, {"recurrent", a.recurrent}, a.hidden, 3, a.hidden.dtype());
  run_kernel<RecurrentCellArgs>(op, a.hidden.is_meta(),
                                {LITHE_CPU_LIST(recurrent_cell, refuse), {"ref", Isa::generic, nullptr, cell_ref}}, a);
}

void recurrent_cell_grad(const RecurrentCellGradArgs& g) {
  const char* op = "recurrent_cell_grad";
  const RecurrentCellArgs& a = g.forward;
  check_args(op, a);
  check_like(op, {"dhidden", g.dhidden}, {"hidden", a.hidden});
  check_like(op, {"dgates", g.dgates}, {"gates", a.gates});
  if (a.kind == RecurrentCell::gru) check_like(op, {"drecurrent", g.drecurrent}, {"gates", a.gates});
  if (a.kind == RecurrentCell::lstm) check_like(op, {"dcell", g.dcell}, {"cell", a.cell});
  if (g.dbefore) check_like(op, {"dbefore", g.dbefore}, {"hidden", a.hidden});
  run_kernel<RecurrentCellGradArgs>(
      op, a.hidden.is_meta(),
      {LITHE_CPU_LIST(recurrent_cell_grad, refuse), {"ref", Isa::generic, nullptr, cell_grad_ref}}, g);
}

}  // namespace lithe::kernels
