#include "lithe/kernels/feature_map/feature_map.h"

#include "lithe/kernels/checks.h"
#include "lithe/kernels/feature_map/reference.h"

LITHE_DECLARE_CPU(feature_map, lithe::kernels::FeatureMapArgs)
LITHE_DECLARE_CPU(feature_map_grad, lithe::kernels::FeatureMapGradArgs)

namespace lithe::kernels {
namespace {

void feature_map_ref(const FeatureMapArgs& a) {
  dispatch_float(a.x.dtype(), [&]<class T>() { ref::feature_map<T>(a); });
}
void feature_map_grad_ref(const FeatureMapGradArgs& g) {
  dispatch_float(g.y.dtype(), [&]<class T>() { ref::feature_map_grad<T>(g); });
}
const char* refuse(const FeatureMapArgs& a) { return refuse_f64(a.x); }
const char* refuse(const FeatureMapGradArgs& g) { return refuse_f64(g.y); }

void check_heads(const char* op, const Named& x, int64_t heads) {
  check_rows(op, x);
  check(heads > 0 && x.tensor.shape().rank() == 2 && x.tensor.cols() % heads == 0, op, x.name,
        " must be [N, heads*C] of ", heads, " heads, got ", x.tensor);
}
void check_shift(const char* op, const Named& shift, const Tensor& x, int64_t heads) {
  if (!shift.tensor) return;
  check(shift.tensor.shape() == Shape{x.rows(), heads} && shift.tensor.dtype() == wide_of(x.dtype()), op, shift.name,
        " must be ", wide_of(x.dtype()), Shape{x.rows(), heads}, ", got ", shift.tensor);
}

}  // namespace

Cost cost(const FeatureMapArgs& a) { return {10.0 * double(a.x.numel()), bytes_of({a.x, a.shift, a.y})}; }
Cost cost(const FeatureMapGradArgs& g) { return {4.0 * double(g.y.numel()), bytes_of({g.y, g.dy, g.dx, g.dshift})}; }

void feature_map(const FeatureMapArgs& a) {
  const char* op = "feature_map";
  check_heads(op, {"x", a.x}, a.heads);
  check_like(op, {"y", a.y}, {"x", a.x});
  check_shift(op, {"shift", a.shift}, a.x, a.heads);
  run_kernel<FeatureMapArgs>(op, a.x.is_meta(),
                             {LITHE_CPU_LIST(feature_map, refuse), {"ref", Isa::generic, nullptr, feature_map_ref}}, a);
}

void feature_map_grad(const FeatureMapGradArgs& g) {
  const char* op = "feature_map_grad";
  check_heads(op, {"y", g.y}, g.heads);
  check_like(op, {"dy", g.dy}, {"y", g.y});
  check_like(op, {"dx", g.dx}, {"y", g.y});
  check_shift(op, {"dshift", g.dshift}, g.y, g.heads);
  run_kernel<FeatureMapGradArgs>(
      op, g.y.is_meta(),
      {LITHE_CPU_LIST(feature_map_grad, refuse), {"ref", Isa::generic, nullptr, feature_map_grad_ref}}, g);
}

}  // namespace lithe::kernels
