#include "lithe/kernels/spread/spread.h"

#include <type_traits>

#include "lithe/kernels/spread/reference.h"

LITHE_DECLARE_CPU(spread, lithe::kernels::SpreadArgs)
LITHE_DECLARE_CPU(spread_grad, lithe::kernels::SpreadGradArgs)

namespace lithe::kernels {
namespace {

template <class T>
using Weight = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <class T>
T* data_or_null(const Tensor& x) {
  return x.defined() ? x.data<T>() : nullptr;
}

void check_vectors(const char* op, const Tensor& x, const Tensor& wide, int64_t heads,
                   std::initializer_list<Tensor> vectors) {
  check(heads >= 1 && wide.numel() == x.numel() * heads && wide.dtype() == x.dtype(), op, "x ", x.dtype(), x.shape(),
        " spread over ", heads, " heads does not give ", wide.dtype(), wide.shape());
  const DType type = wide_of(x.dtype());
  for (const Tensor& v : vectors)
    check(!v.defined() || (v.numel() == heads * x.cols() && v.dtype() == type), op, "scale and shift must be ", type,
          "[", heads * x.cols(), "], got ", v.defined() ? v.dtype() : type, v.shape());
}

void reference(const SpreadArgs& a) {
  dispatch_float(a.x.dtype(), [&]<class T>() {
    using W = Weight<T>;
    ref::spread(a.x.data<T>(), data_or_null<W>(a.scale), data_or_null<W>(a.shift), a.out.data<T>(), a.x.rows(), a.heads,
                a.x.cols());
  });
}

void reference_grad(const SpreadGradArgs& a) {
  dispatch_float(a.dout.dtype(), [&]<class T>() {
    using W = Weight<T>;
    const int64_t cols = a.dout.cols() / a.heads;
    ref::spread_grad(data_or_null<T>(a.x), data_or_null<W>(a.scale), a.dout.data<T>(), data_or_null<T>(a.dx),
                     data_or_null<W>(a.dscale), data_or_null<W>(a.dshift), a.dout.rows(), a.heads, cols, a.accumulate);
  });
}

const char* no_f64(const SpreadArgs& a) { return a.x.dtype() == DType::f64 ? "f64 runs on the reference" : nullptr; }
const char* no_f64_grad(const SpreadGradArgs& a) {
  return a.dout.dtype() == DType::f64 ? "f64 runs on the reference" : nullptr;
}

}  // namespace

Cost cost(const SpreadArgs& a) { return {2.0 * double(a.out.numel()), double(a.x.bytes() + a.out.bytes())}; }
Cost cost(const SpreadGradArgs& a) {
  return {(a.dscale ? 5.0 : 2.0) * double(a.dout.numel()), double(a.dout.bytes()) * (1 + 2.0 / double(a.heads))};
}

void spread(const SpreadArgs& a) {
  check_vectors("spread", a.x, a.out, a.heads, {a.scale, a.shift});
  run_kernel<SpreadArgs>("spread", a.x.is_meta(),
                         {LITHE_CPU_STREAMS(spread, no_f64), {"ref", Isa::generic, nullptr, reference}}, a);
}

void spread_grad(const SpreadGradArgs& a) {
  if (a.dx) check_vectors("spread_grad", a.dx, a.dout, a.heads, {a.scale, a.dscale, a.dshift});
  check(!a.dscale || a.x, "spread_grad", "dscale needs x");
  run_kernel<SpreadGradArgs>(
      "spread_grad", a.dout.is_meta(),
      {LITHE_CPU_STREAMS(spread_grad, no_f64_grad), {"ref", Isa::generic, nullptr, reference_grad}}, a);
}

}  // namespace lithe::kernels
