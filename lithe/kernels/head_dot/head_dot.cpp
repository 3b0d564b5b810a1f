#include "lithe/kernels/head_dot/head_dot.h"

#include "lithe/kernels/checks.h"
#include "lithe/kernels/head_dot/reference.h"

LITHE_DECLARE_CPU(head_dot, lithe::kernels::HeadDotArgs)
LITHE_DECLARE_CPU(head_dot_grad, lithe::kernels::HeadDotGradArgs)

namespace lithe::kernels {
namespace {

void head_dot_ref(const HeadDotArgs& args) {
  dispatch_float(args.a.dtype(), [&]<class T>() { ref::head_dot<T>(args); });
}
void head_dot_grad_ref(const HeadDotGradArgs& args) {
  dispatch_float(args.a.dtype(), [&]<class T>() { ref::head_dot_grad<T>(args); });
}
const char* refuse(const HeadDotArgs& args) { return refuse_f64(args.a); }
const char* refuse(const HeadDotGradArgs& args) { return refuse_f64(args.a); }

void check_operands(const char* op, const Tensor& a, const Tensor& b, const Named& s) {
  check_rows(op, {"a", a});
  check_like(op, {"b", b}, {"a", a});
  const Tensor& x = s.tensor;
  check(x && x.shape().rank() == 2 && x.rows() == a.rows() && x.cols() > 0 && a.cols() % x.cols() == 0 &&
            x.dtype() == wide_of(a.dtype()),
        op, s.name, " must be ", wide_of(a.dtype()), " [N, heads] to match a ", a.shape(), ", got ", x);
}

}  // namespace

Cost cost(const HeadDotArgs& args) { return {2.0 * double(args.a.numel()), bytes_of({args.a, args.b, args.s})}; }

void head_dot(const HeadDotArgs& args) {
  const char* op = "head_dot";
  check_operands(op, args.a, args.b, {"s", args.s});
  check_alias(op, {"s", args.s}, {}, {{"a", args.a}, {"b", args.b}});
  run_kernel<HeadDotArgs>(op, args.a.is_meta(),
                          {LITHE_CPU_STREAMS(head_dot, refuse), {"ref", Isa::generic, nullptr, head_dot_ref}}, args);
}

Cost cost(const HeadDotGradArgs& args) {
  const double outputs = args.da.defined() + args.db.defined();
  return {outputs * double(args.a.numel()), bytes_of({args.a, args.b, args.ds, args.da, args.db})};
}

void head_dot_grad(const HeadDotGradArgs& args) {
  const char* op = "head_dot_grad";
  check_operands(op, args.a, args.b, {"ds", args.ds});
  for (const Named& d : {Named{"da", args.da}, Named{"db", args.db}}) {
    if (!d.tensor) continue;
    check_like(op, d, {"a", args.a});
    check_alias(op, d, {}, {{"a", args.a}, {"b", args.b}, {"ds", args.ds}});
  }
  run_kernel<HeadDotGradArgs>(
      op, args.a.is_meta(),
      {LITHE_CPU_STREAMS(head_dot_grad, refuse), {"ref", Isa::generic, nullptr, head_dot_grad_ref}}, args);
}

}  // namespace lithe::kernels
