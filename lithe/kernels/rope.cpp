#include "lithe/kernels/rope.h"

#include "lithe/kernels/checks.h"
#include "lithe/kernels/ref/rope.h"

namespace lithe::kernels {
namespace {

void rope_ref(const RopeArgs& a) {
  dispatch_float(a.x.dtype(), [&]<class T>() { ref::rope<T>(a); });
}

}  // namespace

Cost cost(const RopeArgs& a) {
  return {double(a.x.numel()) * (3 + a.accumulate), bytes_of({a.x, a.positions, a.out})};
}

void rope(const RopeArgs& a) {
  const char* op = "rope";
  check_rows(op, {"x", a.x});
  check_like(op, {"out", a.out}, {"x", a.x});
  check_vector(op, {"positions", a.positions}, a.x.rows(), DType::i32, {"x", a.x});
  check(a.head_dim > 0 && a.head_dim % 2 == 0 && a.x.cols() % a.head_dim == 0, op, "head_dim must be even and divide the ", a.x.cols(),
        " columns of x ", a.x.shape(), ", got ", a.head_dim);
  check(a.base > 0, op, "base must be positive, got ", a.base);
  if (a.accumulate)
    check_alias(op, {"out", a.out}, {}, {{"x", a.x}});
  else
    check_alias(op, {"out", a.out}, {{"x", a.x}}, {});
  run_kernel(op, a.x.is_meta(), {Implementation<RopeArgs>{"ref", Isa::generic, nullptr, rope_ref}}, a);
}

}  // namespace lithe::kernels
