#include "lithe/kernels/norm/norm.h"

#include "lithe/kernels/checks.h"
#include "lithe/kernels/norm/cpu.h"
#include "lithe/kernels/norm/reference.h"

LITHE_DECLARE_CPU(norm, NormArgs)
LITHE_DECLARE_CPU(norm_grad, NormGradTask)

namespace lithe::kernels {
namespace {

void norm_ref(const NormArgs& a) {
  dispatch_float(a.x.dtype(), [&]<class T>() { ref::norm<T>(a); });
}
void norm_grad_ref(const NormGradTask& task) {
  dispatch_float(task.args.x.dtype(), [&]<class T>() { ref::norm_grad<T>(task.args); });
}
const char* refuse(const NormArgs& a) { return refuse_f64(a.x); }
const char* refuse(const NormGradTask& task) { return refuse_f64(task.args.x); }

void check_statistics(const char* op, NormKind kind, const Tensor& mean, const Tensor& scale, const Named& x) {
  if (mean && kind != NormKind::rms) check_vector(op, {"mean", mean}, x.tensor.rows(), wide_of(x.tensor.dtype()), x);
  if (scale) check_vector(op, {"scale", scale}, x.tensor.rows(), wide_of(x.tensor.dtype()), x);
}

}  // namespace

Cost cost(const NormArgs& a) {
  const double each = (a.kind == NormKind::rms ? 4 : 7) + a.bias.defined() + a.residual.defined();
  return {double(a.x.numel()) * each, bytes_of({a.x, a.residual, a.sum, a.weight, a.bias, a.y, a.mean, a.scale})};
}

void norm(const NormArgs& a) {
  const char* op = a.kind == NormKind::rms ? "rms_norm" : "layer_norm";
  const Named x{"x", a.x}, y{"y", a.y};
  check_rows(op, x);
  check_like(op, y, x);
  check(a.eps >= 0, op, "eps must not be negative, got ", a.eps);
  check_vector(op, {"weight", a.weight}, a.x.cols(), wide_of(a.x.dtype()), x);
  if (a.bias) check_vector(op, {"bias", a.bias}, a.x.cols(), wide_of(a.x.dtype()), x);
  check_statistics(op, a.kind, a.mean, a.scale, x);
  if (a.residual) {
    check_like(op, {"residual", a.residual}, x);
    check_like(op, {"sum", a.sum}, x);
    check_alias(op, {"sum", a.sum}, {x, {"residual", a.residual}}, {y});
    check_alias(op, y, {}, {x, {"residual", a.residual}});
  } else {
    check(!a.sum, op, "sum is only written when there is a residual; leave it out");
    check_alias(op, y, {x}, {});
  }
  run_kernel<NormArgs>(op, a.x.is_meta(), {LITHE_CPU_STREAMS(norm, refuse), {"ref", Isa::generic, nullptr, norm_ref}},
                       a);
}

Cost cost(const NormGradArgs& a) {
  const bool centred = a.kind != NormKind::rms;
  const double each = (a.dx ? 8 + 2 * centred + 2 * (a.kind == NormKind::layer_sigma) + a.accumulate : 0) +
                      3 * a.dweight.defined() + a.dbias.defined();
  return {double(a.x.numel()) * each, bytes_of({a.x, a.weight, a.mean, a.scale, a.dy, a.dx, a.dweight, a.dbias})};
}

void norm_grad(const NormGradArgs& a) {
  const char* op = a.kind == NormKind::rms ? "rms_norm_grad" : "layer_norm_grad";
  const Named x{"x", a.x};
  const DType wide = (check_rows(op, x), wide_of(a.x.dtype()));
  check_like(op, {"dy", a.dy}, x);
  if (a.dx) check_like(op, {"dx", a.dx}, x);
  check(a.scale && (a.mean || a.kind == NormKind::rms), op,
        "needs the scale and, for layer norms, the mean that the forward pass kept");
  check_vector(op, {"weight", a.weight}, a.x.cols(), wide, x);
  if (a.dweight) check_vector(op, {"dweight", a.dweight}, a.x.cols(), wide, x);
  if (a.dbias) check_vector(op, {"dbias", a.dbias}, a.x.cols(), wide, x);
  check_statistics(op, a.kind, a.mean, a.scale, x);
  if (a.accumulate)
    check_alias(op, {"dx", a.dx}, {}, {{"dy", a.dy}, x});
  else
    check_alias(op, {"dx", a.dx}, {{"dy", a.dy}}, {x});
  NormGradTask task{a};
  const Tensor partial = column_workspace(a.x.cols(), a.x, a.dweight || a.dbias);
  task.partial = static_cast<float*>(partial.raw());
  run_kernel<NormGradTask>(op, a.x.is_meta(),
                           {LITHE_CPU_STREAMS(norm_grad, refuse), {"ref", Isa::generic, nullptr, norm_grad_ref}}, task);
}

}  // namespace lithe::kernels
