#include "lithe/kernels/pool/pool.h"

#include "lithe/kernels/checks.h"
#include "lithe/kernels/pool/reference.h"

namespace lithe::kernels {
namespace {

void pool_ref(const PoolArgs& a) {
  dispatch_float(a.x.dtype(), [&]<class T>() { ref::pool<T>(a); });
}
void pool_grad_ref(const PoolGradArgs& a) {
  dispatch_float(a.dout.dtype(), [&]<class T>() { ref::pool_grad<T>(a); });
}

void check_sizes(const char* op, const Tensor& x, const Tensor& pooled, const Tensor& rows,
                 const std::vector<int64_t>& offsets, Pooling kind) {
  check_rows(op, {"x", x});
  check(pooled.dtype() == x.dtype() && x.rows() == offsets.back() &&
            pooled.shape() == Shape{int64_t(offsets.size()) - 1, x.cols()},
        op, "x ", x.dtype(), x.shape(), " in ", offsets.size() - 1, " sequences of ", offsets.back(),
        " rows does not give ", pooled.dtype(), pooled.shape());
  check(kind == Pooling::mean || (rows.defined() && rows.shape() == pooled.shape() && rows.dtype() == DType::i32), op,
        "max needs rows i32", pooled.shape());
  for (size_t b = 0; b + 1 < offsets.size(); ++b)
    check(offsets[b] < offsets[b + 1], op, "sequence ", b, " is empty, so there is nothing to pool");
}

}  // namespace

Cost cost(const PoolArgs& a) { return {double(a.x.numel()), bytes_of({a.x, a.out, a.rows})}; }
Cost cost(const PoolGradArgs& a) { return {double(a.dx.numel()), bytes_of({a.dx, a.dout, a.rows})}; }

void pool(const PoolArgs& a) {
  check_sizes("pool", a.x, a.out, a.rows, a.offsets, a.kind);
  run_kernel<PoolArgs>("pool", a.x.is_meta(), {{"ref", Isa::generic, nullptr, pool_ref}}, a);
}

void pool_grad(const PoolGradArgs& a) {
  check_sizes("pool_grad", a.dx, a.dout, a.rows, a.offsets, a.kind);
  run_kernel<PoolGradArgs>("pool_grad", a.dx.is_meta(), {{"ref", Isa::generic, nullptr, pool_grad_ref}}, a);
}

}  // namespace lithe::kernels
