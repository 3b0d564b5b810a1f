#include "lithe/kernels/hash_pool/hash_pool.h"

#include "lithe/kernels/checks.h"
#include "lithe/kernels/hash_pool/reference.h"

LITHE_DECLARE_CPU(hash_pool, HashPoolArgs)
LITHE_DECLARE_CPU(hash_pool_grad, HashPoolGradArgs)

namespace lithe::kernels {
namespace {

void hash_pool_ref(const HashPoolArgs& a) {
  dispatch_float(a.out.dtype(), [&]<class T>() { ref::hash_pool<T>(a); });
}
void hash_pool_grad_ref(const HashPoolGradArgs& a) {
  dispatch_float(a.dout.dtype(), [&]<class T>() { ref::hash_pool_grad<T>(a); });
}
const char* refuse(const HashPoolArgs& a) { return refuse_f64(a.out); }
const char* refuse(const HashPoolGradArgs& a) { return refuse_f64(a.dout); }

template <class Args>
void check_sizes(const char* op, const Args& a, const Named& rows) {
  const DType wide = wide_of(rows.tensor.dtype());
  check_rows(op, rows);
  check(a.group_size > 0 && a.group_size <= 24, op, "group_size must be between 1 and 24, got ", a.group_size);
  check_codes(op, a.codes, a.bits, rows.tensor);
  const Shape table{int64_t(1) << a.group_size, rows.tensor.cols()},
      weights{groups_of(a.bits, a.group_size), rows.tensor.cols()};
  const auto fits = [&](const Named& t, const Shape& shape, DType dtype) {
    check(t.tensor.shape() == shape && t.tensor.dtype() == dtype && t.tensor.device() == rows.tensor.device(), op,
          t.name, " must be ", dtype, shape, " for ", a.bits, " bits in groups of ", a.group_size, " and rows ",
          rows.tensor.shape(), ", got ", t.tensor.dtype(), t.tensor.shape());
  };
  fits({"table", a.table}, table, rows.tensor.dtype());
  fits({"weights", a.weights}, weights, wide);
  if constexpr (requires { a.dtable; }) {
    if (a.dtable) fits({"dtable", a.dtable}, table, wide);
    if (a.dweights) fits({"dweights", a.dweights}, weights, wide);
  }
}

double products(const Tensor& rows, int64_t bits, int64_t group_size) {
  return 2 * double(rows.numel()) * double(groups_of(bits, group_size));
}

}  // namespace

Cost cost(const HashPoolArgs& a) {
  return {products(a.out, a.bits, a.group_size), bytes_of({a.codes, a.table, a.weights, a.out})};
}

void hash_pool(const HashPoolArgs& a) {
  const char* op = "hash_pool";
  check_sizes(op, a, {"out", a.out});
  run_kernel<HashPoolArgs>(op, a.out.is_meta(),
                           {LITHE_CPU_STREAMS(hash_pool, refuse), {"ref", Isa::generic, nullptr, hash_pool_ref}}, a);
}

Cost cost(const HashPoolGradArgs& a) {
  return {products(a.dout, a.bits, a.group_size) * (bool(a.dtable) + bool(a.dweights)),
          bytes_of({a.codes, a.table, a.weights, a.dout, a.dtable, a.dweights})};
}

void hash_pool_grad(const HashPoolGradArgs& a) {
  const char* op = "hash_pool_grad";
  check_sizes(op, a, {"dout", a.dout});
  if (!a.dtable && !a.dweights) return;
  run_kernel<HashPoolGradArgs>(
      op, a.dout.is_meta(),
      {LITHE_CPU_STREAMS(hash_pool_grad, refuse), {"ref", Isa::generic, nullptr, hash_pool_grad_ref}}, a);
}

}  // namespace lithe::kernels
