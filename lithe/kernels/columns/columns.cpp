#include "lithe/kernels/columns/columns.h"

#include "lithe/kernels/checks.h"
#include "lithe/kernels/columns/reference.h"

namespace lithe::kernels {
namespace {

template <class F>
void by_types(const Tensor& x, const Tensor& y, F&& f) {
  dispatch_float(x.dtype(),
                 [&]<class T>() { dispatch_float(y.dtype(), [&]<class O>() { f.template operator()<T, O>(); }); });
}
void map_columns_ref(const ColumnMapArgs& a) {
  by_types(a.x, a.y, [&]<class T, class O>() { ref::map_columns<T, O>(a); });
}
void map_columns_grad_ref(const ColumnMapGradArgs& a) {
  by_types(a.x, a.dy, [&]<class T, class O>() { ref::map_columns_grad<T, O>(a); });
}

}  // namespace

Cost cost(const ColumnMapArgs& a) { return {4 * double(a.x.numel()), bytes_of({a.x, a.y})}; }

void map_columns(const ColumnMapArgs& a) {
  const char* op = "map_columns";
  check_rows(op, {"x", a.x});
  check_rows(op, {"y", a.y});
  check_shape_like(op, {"y", a.y}, {"x", a.x});
  check_alias(op, {"y", a.y}, {}, {{"x", a.x}});
  run_kernel<ColumnMapArgs>(op, a.x.is_meta(), {{"ref", Isa::generic, nullptr, map_columns_ref}}, a);
}

Cost cost(const ColumnMapGradArgs& a) { return {10 * double(a.x.numel()), bytes_of({a.x, a.dy, a.dx})}; }

void map_columns_grad(const ColumnMapGradArgs& a) {
  const char* op = "map_columns_grad";
  check_rows(op, {"x", a.x});
  check_rows(op, {"dy", a.dy});
  check_shape_like(op, {"dy", a.dy}, {"x", a.x});
  check_shape_like(op, {"dx", a.dx}, {"x", a.x});
  check(a.dx.dtype() == wide_of(a.x.dtype()), op, "dx must be ", wide_of(a.x.dtype()), " for x of ", a.x.dtype(),
        ", got ", a.dx.dtype());
  check_alias(op, {"dx", a.dx}, {}, {{"x", a.x}, {"dy", a.dy}});
  run_kernel<ColumnMapGradArgs>(op, a.x.is_meta(), {{"ref", Isa::generic, nullptr, map_columns_grad_ref}}, a);
}

}  // namespace lithe::kernels
