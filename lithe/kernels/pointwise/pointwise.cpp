#include "lithe/kernels/pointwise/pointwise.h"

#include "lithe/kernels/checks.h"
#include "lithe/kernels/pointwise/reference.h"

LITHE_DECLARE_CPU(pointwise, lithe::kernels::PointwiseArgs)
LITHE_DECLARE_CPU(pointwise_grad, lithe::kernels::PointwiseGradArgs)

namespace lithe::kernels {
namespace {

template <class Run>
void by_types(DType x, DType y, Run&& run) {
  dispatch_float(x, [&]<class T>() {
    if (x == y)
      run.template operator()<T, T>();
    else
      run.template operator()<T, ref::Wide<T>>();
  });
}
void pointwise_ref(const PointwiseArgs& a) {
  by_types(a.x.dtype(), a.y.dtype(), [&]<class T, class Y>() { ref::pointwise<T, Y>(a); });
}
void pointwise_grad_ref(const PointwiseGradArgs& g) {
  by_types(g.x.dtype(), g.dy.dtype(), [&]<class T, class Y>() { ref::pointwise_grad<T, Y>(g); });
}
const char* refuse(const PointwiseArgs& a) { return refuse_f64(a.x); }
const char* refuse(const PointwiseGradArgs& g) { return refuse_f64(g.x); }

void check_result(const char* op, const Named& y, const Tensor& x) {
  check_rows(op, {"x", x});
  check_shape_like(op, y, {"x", x});
  check(y.tensor.dtype() == x.dtype() || y.tensor.dtype() == wide_of(x.dtype()), op, y.name, " must be ", x.dtype(),
        " or ", wide_of(x.dtype()), " to match x, got ", y.tensor);
}

}  // namespace

Cost cost(const PointwiseArgs& a) { return {8.0 * double(a.x.numel()), bytes_of({a.x, a.y})}; }
Cost cost(const PointwiseGradArgs& g) { return {10.0 * double(g.x.numel()), bytes_of({g.x, g.dy, g.dx})}; }

void pointwise(const PointwiseArgs& a) {
  const char* op = "pointwise";
  check_result(op, {"y", a.y}, a.x);
  run_kernel<PointwiseArgs>(op, a.x.is_meta(),
                            {LITHE_CPU_LIST(pointwise, refuse), {"ref", Isa::generic, nullptr, pointwise_ref}}, a);
}

void pointwise_grad(const PointwiseGradArgs& g) {
  const char* op = "pointwise_grad";
  check_result(op, {"dy", g.dy}, g.x);
  check_like(op, {"dx", g.dx}, {"x", g.x});
  run_kernel<PointwiseGradArgs>(
      op, g.x.is_meta(), {LITHE_CPU_LIST(pointwise_grad, refuse), {"ref", Isa::generic, nullptr, pointwise_grad_ref}},
      g);
}

}  // namespace lithe::kernels
