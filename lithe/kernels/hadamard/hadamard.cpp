#include "lithe/kernels/hadamard/hadamard.h"

#include <bit>

#include "lithe/base/threads.h"
#include "lithe/kernels/checks.h"
#include "lithe/kernels/hadamard/cpu.h"
#include "lithe/kernels/hadamard/reference.h"

LITHE_DECLARE_CPU(hadamard, HadamardTask)
LITHE_DECLARE_CPU(hadamard_grad, HadamardGradTask)

namespace lithe::kernels {
namespace {

void hadamard_ref(const HadamardTask& task) {
  dispatch_float(task.args.x.dtype(), [&]<class T>() { ref::hadamard<T>(task.args); });
}
void hadamard_grad_ref(const HadamardGradTask& task) {
  dispatch_float(task.args.dout.dtype(), [&]<class T>() { ref::hadamard_grad<T>(task.args); });
}
const char* refuse(const HadamardTask& task) { return refuse_f64(task.args.x); }
const char* refuse(const HadamardGradTask& task) { return refuse_f64(task.args.dout); }

void check_width(const char* op, int64_t order, const Named& rows) {
  check_hadamard_order(op, order);
  check(rows.tensor.cols() <= order, op, rows.name, " ", rows.tensor.shape(), " has more columns than H, of order ",
        order, "; pass an order of at least the columns");
}

/// A row for each thread and two vectors beside it, booked on meta too; none for f64, which the reference takes.
Tensor row_workspace(int64_t order, const Tensor& rows) {
  if (rows.dtype() == DType::f64) return {};
  const MemoryScope scope(MemoryClass::workspace);
  return Tensor({threads() + 2, order}, DType::f32, rows.device());
}

/// Additions of one transform of one row: d(m - 1) + dk (spec had.kronecker).
double additions(int64_t order) {
  const int64_t base = hadamard_base(order)->order;
  return double(order) * double(base - 1 + std::countr_zero(uint64_t(order / base)));
}

}  // namespace

// spec: had.kronecker | kernel | H_m x H_2^k, orders m 2^k with m = 1, 12, 20, 28, 36 by Paley | HP Table 2
const HadamardBase* hadamard_base(int64_t order) {
  for (const HadamardBase& base : kHadamardBases)
    if (order >= base.order && order % base.order == 0 && std::has_single_bit(uint64_t(order / base.order)))
      return &base;
  return nullptr;
}

void check_hadamard_order(const char* op, int64_t order, const char* remedy) {
  if (hadamard_base(order)) return;
  int64_t below = order, above = std::max<int64_t>(order, 0);
  while (below > 0 && !hadamard_base(below)) --below;
  while (!hadamard_base(above)) ++above;
  fail_usage(op, "no Hadamard matrix of order ", order,
             " can be built: orders are m*2^k with m = 1, 12, 20, 28 or 36; the nearest are ",
             below > 0 ? cat(below, " below and ") : "", above, " above; ", remedy);
}

// spec: had.pad | kernel | rows padded with zeros to a power of two, first results kept; not orthogonal | HP Table 2
int64_t hadamard_padded(int64_t size) { return int64_t(std::bit_ceil(uint64_t(size))); }

Cost cost(const HadamardArgs& a) {
  return {double(a.x.rows()) * (additions(a.order) + 2 * double(a.x.cols())), bytes_of({a.x, a.alpha, a.beta, a.out})};
}

// spec: had.fwht | kernel | Walsh-Hadamard butterflies in natural order, d log2 d additions a row | HP 3, Fig 2
void hadamard(const HadamardArgs& a) {
  const char* op = "hadamard";
  const Named x{"x", a.x}, out{"out", a.out};
  check_rows(op, x);
  check_like(op, out, x);
  check_width(op, a.order, x);
  if (a.alpha) check_vector(op, {"alpha", a.alpha}, a.x.cols(), wide_of(a.x.dtype()), x);
  if (a.beta) check_vector(op, {"beta", a.beta}, a.x.cols(), wide_of(a.x.dtype()), x);
  check_alias(op, out, {x}, {});
  HadamardTask task{a};
  const Tensor row = row_workspace(a.order, a.x);
  task.base = int(hadamard_base(a.order)->order);
  if (float* const start = static_cast<float*>(row.raw())) {
    task.vectors = start;
    task.row = start + 2 * a.order;
  }
  run_kernel<HadamardTask>(op, a.x.is_meta(),
                           {LITHE_CPU_LIST(hadamard, refuse), {"ref", Isa::generic, nullptr, hadamard_ref}}, task);
}

Cost cost(const HadamardGradArgs& a) {
  const double C = double(a.dout.cols());
  return {double(a.dout.rows()) * ((a.dx ? additions(a.order) + (2 + a.accumulate) * C : 0) +
                                   (a.dalpha ? additions(a.order) + 2 * C : 0) + (a.dbeta ? C : 0)),
          bytes_of({a.dalpha ? a.x : Tensor(), a.alpha, a.dout, a.dx, a.dalpha, a.dbeta})};
}

void hadamard_grad(const HadamardGradArgs& a) {
  const char* op = "hadamard_grad";
  const Named dout{"dout", a.dout}, dx{"dx", a.dx};
  check_rows(op, dout);
  check_width(op, a.order, dout);
  const DType wide = wide_of(a.dout.dtype());
  check(!a.dalpha || a.x, op, "dalpha needs x");
  if (a.dalpha) check_like(op, {"x", a.x}, dout);
  if (a.dx) check_like(op, dx, dout);
  for (const Named& v : {Named{"alpha", a.alpha}, Named{"dalpha", a.dalpha}, Named{"dbeta", a.dbeta}})
    if (v.tensor) check_vector(op, v, a.dout.cols(), wide, dout);
  if (a.dx && a.accumulate)
    check_alias(op, dx, {}, {dout});
  else if (a.dx)
    check_alias(op, dx, {dout}, {});
  if (a.dx && a.dalpha) check_alias(op, dx, {}, {{"x", a.x}});
  HadamardGradTask task{a};
  const Tensor row = row_workspace(a.order, a.dout),
               partial = column_workspace(a.dout.cols(), a.dout, a.dalpha || a.dbeta);
  task.base = int(hadamard_base(a.order)->order);
  if (float* const start = static_cast<float*>(row.raw())) {
    task.vectors = start;
    task.row = start + 2 * a.order;
  }
  task.partial = static_cast<float*>(partial.raw());
  run_kernel<HadamardGradTask>(
      op, a.dout.is_meta(), {LITHE_CPU_LIST(hadamard_grad, refuse), {"ref", Isa::generic, nullptr, hadamard_grad_ref}},
      task);
}

}  // namespace lithe::kernels
