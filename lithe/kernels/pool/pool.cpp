#include "lithe/kernels/pool/pool.h"

#include <algorithm>
#include <numeric>

#include "lithe/kernels/checks.h"
#include "lithe/kernels/pool/reference.h"

LITHE_DECLARE_CPU(pool, lithe::kernels::PoolArgs)
LITHE_DECLARE_CPU(pool_grad, lithe::kernels::PoolGradArgs)

namespace lithe::kernels {
namespace {

void pool_ref(const PoolArgs& a) {
  dispatch_float(a.x.dtype(), [&]<class T>() { ref::pool<T>(a); });
}
void pool_grad_ref(const PoolGradArgs& a) {
  dispatch_float(a.dout.dtype(), [&]<class T>() { ref::pool_grad<T>(a); });
}
const char* refuse(const PoolArgs& a) { return refuse_f64(a.x); }
const char* refuse(const PoolGradArgs& a) { return refuse_f64(a.dx); }

void check_sizes(const char* op, const Tensor& x, const Tensor& pooled, const Tensor& rows,
                 const std::vector<int64_t>& offsets, std::span<const int64_t> from, Pooling kind) {
  check_rows(op, {"x", x});
  const int64_t places = from.empty() ? x.rows() : int64_t(from.size());
  check(pooled.dtype() == x.dtype() && places == offsets.back() &&
            pooled.shape() == Shape{int64_t(offsets.size()) - 1, x.cols()},
        op, "x ", x.dtype(), x.shape(), " with ", places, " places in ", offsets.size() - 1, " sequences of ",
        offsets.back(), " rows does not give ", pooled.dtype(), pooled.shape());
  check(kind == Pooling::mean || (rows.defined() && rows.shape() == pooled.shape() && rows.dtype() == DType::i32), op,
        "max needs rows i32", pooled.shape());
  check(x.rows() <= INT32_MAX, op, "x has ", x.rows(), " rows, at most ", INT32_MAX, " have a number in i32");
  for (size_t b = 0; b + 1 < offsets.size(); ++b)
    check(offsets[b] < offsets[b + 1], op, "sequence ", b, " is empty, so there is nothing to pool");
  for (const int64_t row : from)
    check(row >= 0 && row < x.rows(), op, "row ", row, " is not one of the ", x.rows(), " of x");
}

}  // namespace

Cost cost(const PoolArgs& a) {
  return {double(a.from.empty() ? a.x.rows() : int64_t(a.from.size())) * double(a.x.cols()),
          bytes_of({a.x, a.out, a.rows})};
}
Cost cost(const PoolGradArgs& a) {
  return {double(a.from.empty() ? a.dx.rows() : int64_t(a.from.size())) * double(a.dx.cols()),
          bytes_of({a.dx, a.dout, a.rows})};
}

void pool(const PoolArgs& a) {
  check_sizes("pool", a.x, a.out, a.rows, a.offsets, a.from, a.kind);
  run_kernel<PoolArgs>("pool", a.x.is_meta(), {LITHE_CPU_LIST(pool, refuse), {"ref", Isa::generic, nullptr, pool_ref}},
                       a);
}

void pool_grad(const PoolGradArgs& a) {
  check_sizes("pool_grad", a.dx, a.dout, a.rows, a.offsets, a.from, a.kind);
  // What reads each row: counted, then filled in the order of the sequences. The largest counts a row once, however
  // often a sequence reads it.
  std::vector<int64_t> starts(size_t(a.dx.rows()) + 1), readers(size_t(a.offsets.back())), last;
  const auto each_reader = [&](auto&& f) {
    last.assign(size_t(a.dx.rows()), -1);
    for (size_t b = 0; b + 1 < a.offsets.size(); ++b)
      for (int64_t i = a.offsets[b]; i < a.offsets[b + 1]; ++i) {
        const auto row = size_t(a.from.empty() ? i : a.from[size_t(i)]);
        if (a.kind == Pooling::mean || last[row] != int64_t(b)) f(row, int64_t(b));
        last[row] = int64_t(b);
      }
  };
  each_reader([&](size_t row, int64_t) { ++starts[row + 1]; });
  std::partial_sum(starts.begin(), starts.end(), starts.begin());
  std::vector<int64_t> next(starts.begin(), starts.end() - 1);
  each_reader([&](size_t row, int64_t b) { readers[size_t(next[row]++)] = b; });
  PoolGradArgs with = a;
  with.reader_offsets = starts.data(), with.readers = readers.data();
  run_kernel<PoolGradArgs>("pool_grad", a.dx.is_meta(),
                           {LITHE_CPU_LIST(pool_grad, refuse), {"ref", Isa::generic, nullptr, pool_grad_ref}}, with);
}

}  // namespace lithe::kernels
