#include "lithe/kernels/elementwise/elementwise.h"

#include "lithe/kernels/checks.h"
#include "lithe/kernels/elementwise/cpu.h"
#include "lithe/kernels/elementwise/reference.h"

LITHE_DECLARE_CPU(activation, ActivationArgs)
LITHE_DECLARE_CPU(activation_grad, ActivationGradArgs)
LITHE_DECLARE_CPU(gated, GatedArgs)
LITHE_DECLARE_CPU(gated_grad, GatedGradArgs)
LITHE_DECLARE_CPU(add, AddArgs)
LITHE_DECLARE_CPU(mul, MulArgs)
LITHE_DECLARE_CPU(row_affine, RowAffineArgs)
LITHE_DECLARE_CPU(row_affine_grad, RowAffineGradTask)
LITHE_DECLARE_CPU(dropout, DropoutArgs)

namespace lithe::kernels {
namespace {

// A transcendental function counts as one operation.
double flops_of(Activation kind) {
  switch (kind) {
    case Activation::relu: return 1;
    case Activation::gelu: return 4;
    case Activation::gelu_tanh: return 8;
    case Activation::silu: return 4;
    case Activation::tanh: return 1;
  }
  return 0;
}
double gradient_flops_of(Activation kind) {
  switch (kind) {
    case Activation::relu: return 1;
    case Activation::gelu: return 9;
    case Activation::gelu_tanh: return 17;
    case Activation::silu: return 7;
    case Activation::tanh: return 6;
  }
  return 0;
}

void check_period(const char* op, const Named& t, const Named& rows) {
  const int64_t period = t.tensor.numel();
  check_vector(op, t, period, wide_of(rows.tensor.dtype()), rows);
  check(period > 0 && rows.tensor.cols() % period == 0, op, t.name, " must divide the ", rows.tensor.cols(),
        " columns of ", rows.name, " ", rows.tensor.shape(), ", got ", t.tensor.shape());
}

void activation_ref(const ActivationArgs& a) {
  dispatch_float(a.x.dtype(), [&]<class T>() { ref::activation<T>(a); });
}
void activation_grad_ref(const ActivationGradArgs& a) {
  dispatch_float(a.x.dtype(), [&]<class T>() { ref::activation_grad<T>(a); });
}
void gated_ref(const GatedArgs& a) {
  dispatch_float(a.gate.dtype(), [&]<class T>() { ref::gated<T>(a); });
}
void gated_grad_ref(const GatedGradArgs& a) {
  dispatch_float(a.gate.dtype(), [&]<class T>() { ref::gated_grad<T>(a); });
}
void add_ref(const AddArgs& args) {
  dispatch_float(args.a.dtype(), [&]<class A>() {
    dispatch_float(args.b ? args.b.dtype() : args.a.dtype(),
                   [&]<class B>() { dispatch_float(args.out.dtype(), [&]<class O>() { ref::add<A, B, O>(args); }); });
  });
}
void mul_ref(const MulArgs& args) {
  dispatch_float(args.a.dtype(), [&]<class T>() { ref::mul<T>(args); });
}
void row_affine_ref(const RowAffineArgs& a) {
  dispatch_float(a.x.dtype(), [&]<class T>() { ref::row_affine<T>(a); });
}
void row_affine_grad_ref(const RowAffineGradTask& task) {
  dispatch_float(task.args.dy.dtype(), [&]<class T>() { ref::row_affine_grad<T>(task.args); });
}
void dropout_ref(const DropoutArgs& a) {
  dispatch_float(a.x.dtype(), [&]<class T>() { ref::dropout<T>(a); });
}

const char* refuse(const ActivationArgs& a) { return refuse_f64(a.x); }
const char* refuse(const ActivationGradArgs& a) { return refuse_f64(a.x); }
const char* refuse(const GatedArgs& a) { return refuse_f64(a.gate); }
const char* refuse(const GatedGradArgs& a) { return refuse_f64(a.gate); }
const char* refuse(const AddArgs& args) {
  const char* reason = refuse_f64(args.a);
  if (!reason && args.b) reason = refuse_f64(args.b);
  return reason ? reason : refuse_f64(args.out);
}
const char* refuse(const MulArgs& args) { return refuse_f64(args.a); }
const char* refuse(const RowAffineArgs& a) { return refuse_f64(a.x); }
const char* refuse(const RowAffineGradTask& task) { return refuse_f64(task.args.dy); }
const char* refuse(const DropoutArgs& a) { return refuse_f64(a.x); }

}  // namespace

Cost cost(const ActivationArgs& a) {
  return {double(a.x.numel()) * (flops_of(a.kind) + (a.bias ? 1 : 0)), bytes_of({a.x, a.bias, a.y})};
}

void activation(const ActivationArgs& a) {
  const char* op = "activation";
  check_rows(op, {"x", a.x});
  check_like(op, {"y", a.y}, {"x", a.x});
  if (a.bias) check_vector(op, {"bias", a.bias}, a.x.cols(), wide_of(a.x.dtype()), {"x", a.x});
  check_alias(op, {"y", a.y}, {{"x", a.x}}, {{"bias", a.bias}});
  run_kernel<ActivationArgs>(op, a.x.is_meta(),
                             {LITHE_CPU_LIST(activation, refuse), {"ref", Isa::generic, nullptr, activation_ref}}, a);
}

Cost cost(const ActivationGradArgs& a) {
  return {double(a.x.numel()) * (gradient_flops_of(a.kind) + 1 + (a.bias ? 1 : 0) + a.accumulate),
          bytes_of({a.x, a.bias, a.dy, a.dx})};
}

void activation_grad(const ActivationGradArgs& a) {
  const char* op = "activation_grad";
  check_rows(op, {"x", a.x});
  check_like(op, {"dy", a.dy}, {"x", a.x});
  check_like(op, {"dx", a.dx}, {"x", a.x});
  if (a.bias) check_vector(op, {"bias", a.bias}, a.x.cols(), wide_of(a.x.dtype()), {"x", a.x});
  if (a.accumulate)
    check_alias(op, {"dx", a.dx}, {}, {{"x", a.x}, {"bias", a.bias}, {"dy", a.dy}});
  else
    check_alias(op, {"dx", a.dx}, {{"dy", a.dy}}, {{"x", a.x}, {"bias", a.bias}});
  run_kernel<ActivationGradArgs>(
      op, a.x.is_meta(), {LITHE_CPU_LIST(activation_grad, refuse), {"ref", Isa::generic, nullptr, activation_grad_ref}},
      a);
}

Cost cost(const GatedArgs& a) {
  return {double(a.gate.numel()) * (flops_of(a.kind) + 1), bytes_of({a.gate, a.up, a.y})};
}

void gated(const GatedArgs& a) {
  const char* op = "gated";
  check_rows(op, {"gate", a.gate});
  check_like(op, {"up", a.up}, {"gate", a.gate});
  check_like(op, {"y", a.y}, {"gate", a.gate});
  check_alias(op, {"y", a.y}, {{"gate", a.gate}, {"up", a.up}}, {});
  run_kernel<GatedArgs>(op, a.gate.is_meta(),
                        {LITHE_CPU_LIST(gated, refuse), {"ref", Isa::generic, nullptr, gated_ref}}, a);
}

Cost cost(const GatedGradArgs& a) {
  return {double(a.gate.numel()) * (flops_of(a.kind) + gradient_flops_of(a.kind) + 3),
          bytes_of({a.gate, a.up, a.dy, a.dgate, a.dup})};
}

void gated_grad(const GatedGradArgs& a) {
  const char* op = "gated_grad";
  const Named gate{"gate", a.gate};
  check_rows(op, gate);
  check_like(op, {"up", a.up}, gate);
  check_like(op, {"dy", a.dy}, gate);
  check_like(op, {"dgate", a.dgate}, gate);
  check_like(op, {"dup", a.dup}, gate);
  check_alias(op, {"dgate", a.dgate}, {gate}, {{"up", a.up}, {"dy", a.dy}, {"dup", a.dup}});
  check_alias(op, {"dup", a.dup}, {{"up", a.up}, {"dy", a.dy}}, {gate});
  run_kernel<GatedGradArgs>(op, a.gate.is_meta(),
                            {LITHE_CPU_LIST(gated_grad, refuse), {"ref", Isa::generic, nullptr, gated_grad_ref}}, a);
}

Cost cost(const AddArgs& a) {
  return {double(a.a.numel()) * ((a.alpha != 1) + (a.b ? 1 + (a.beta != 1) : 0)), bytes_of({a.a, a.b, a.out})};
}

void add(const AddArgs& args) {
  const char* op = "add";
  check_rows(op, {"a", args.a});
  if (args.b) check_shape_like(op, {"b", args.b}, {"a", args.a});
  check_shape_like(op, {"out", args.out}, {"a", args.a});
  check_alias(op, {"out", args.out}, {{"a", args.a}, {"b", args.b}}, {});
  run_kernel<AddArgs>(op, args.a.is_meta(), {LITHE_CPU_LIST(add, refuse), {"ref", Isa::generic, nullptr, add_ref}},
                      args);
}

Cost cost(const MulArgs& a) { return {double(a.a.numel()) * (1 + a.accumulate), bytes_of({a.a, a.b, a.out})}; }

void mul(const MulArgs& args) {
  const char* op = "mul";
  check_rows(op, {"a", args.a});
  check_like(op, {"b", args.b}, {"a", args.a});
  check_like(op, {"out", args.out}, {"a", args.a});
  if (args.accumulate)
    check_alias(op, {"out", args.out}, {}, {{"a", args.a}, {"b", args.b}});
  else
    check_alias(op, {"out", args.out}, {{"a", args.a}, {"b", args.b}}, {});
  run_kernel<MulArgs>(op, args.a.is_meta(), {LITHE_CPU_LIST(mul, refuse), {"ref", Isa::generic, nullptr, mul_ref}},
                      args);
}

Cost cost(const RowAffineArgs& a) {
  return {double(a.x.numel()) * (a.scale.defined() + a.shift.defined()), bytes_of({a.x, a.scale, a.shift, a.out})};
}

void row_affine(const RowAffineArgs& a) {
  const char* op = "row_affine";
  check_rows(op, {"x", a.x});
  check_like(op, {"out", a.out}, {"x", a.x});
  check(a.scale || a.shift, op, "needs scale or shift, got neither; add() copies");
  if (a.scale) check_period(op, {"scale", a.scale}, {"x", a.x});
  if (a.shift) check_period(op, {"shift", a.shift}, {"x", a.x});
  if (a.scale && a.shift) check_like(op, {"shift", a.shift}, {"scale", a.scale});
  check_alias(op, {"out", a.out}, {{"x", a.x}}, {{"scale", a.scale}, {"shift", a.shift}});
  run_kernel<RowAffineArgs>(op, a.x.is_meta(),
                            {LITHE_CPU_LIST(row_affine, refuse), {"ref", Isa::generic, nullptr, row_affine_ref}}, a);
}

Cost cost(const RowAffineGradArgs& a) {
  const double each = (a.dx ? a.scale.defined() + a.accumulate : 0) + 2 * a.dscale.defined() + a.dshift.defined();
  return {double(a.dy.numel()) * each, bytes_of({a.dscale ? a.x : Tensor(), a.scale, a.dy, a.dx, a.dscale, a.dshift})};
}

void row_affine_grad(const RowAffineGradArgs& a) {
  const char* op = "row_affine_grad";
  const Named dy{"dy", a.dy};
  check_rows(op, dy);
  if (a.dscale) check_like(op, {"x", a.x}, dy);
  if (a.dx) check_like(op, {"dx", a.dx}, dy);
  int64_t period = 0;
  for (const Named& t : {Named{"scale", a.scale}, Named{"dscale", a.dscale}, Named{"dshift", a.dshift}})
    if (t.tensor) {
      check_period(op, t, dy);
      check(period == 0 || period == t.tensor.numel(), op, "scale, dscale and dshift must have one length, got ",
            period, " and ", t.tensor.numel());
      period = t.tensor.numel();
    }
  if (a.accumulate)
    check_alias(op, {"dx", a.dx}, {}, {dy, {"x", a.x}, {"scale", a.scale}});
  else
    check_alias(op, {"dx", a.dx}, {dy}, {{"x", a.x}, {"scale", a.scale}});
  RowAffineGradTask task{a};
  const Tensor partial = column_workspace(period, a.dy, a.dscale || a.dshift);
  task.partial = static_cast<float*>(partial.raw());
  run_kernel<RowAffineGradTask>(
      op, a.dy.is_meta(),
      {LITHE_CPU_LIST(row_affine_grad, refuse), {"ref", Isa::generic, nullptr, row_affine_grad_ref}}, task);
}

Cost cost(const DropoutArgs& a) { return {double(a.x.numel()) * (2 + a.accumulate), bytes_of({a.x, a.y})}; }

void dropout(const DropoutArgs& a) {
  const char* op = "dropout";
  check_rows(op, {"x", a.x});
  check_like(op, {"y", a.y}, {"x", a.x});
  // Beyond this p no word of 32 bits is kept.
  check(a.p >= 0 && a.p <= 1 - 0x1p-32, op, "p must be in [0, 1), got ", a.p);
  if (a.accumulate)
    check_alias(op, {"y", a.y}, {}, {{"x", a.x}});
  else
    check_alias(op, {"y", a.y}, {{"x", a.x}}, {});
  run_kernel<DropoutArgs>(op, a.x.is_meta(),
                          {LITHE_CPU_LIST(dropout, refuse), {"ref", Isa::generic, nullptr, dropout_ref}}, a);
}

}  // namespace lithe::kernels
