#include "lithe/kernels/optimizer.h"

#include "lithe/kernels/checks.h"
#include "lithe/kernels/ref/optimizer.h"

namespace lithe::kernels {
namespace {

struct SquaresArgs {
  Tensor x;
  double* result = nullptr;
};
struct FiniteArgs {
  Tensor x;
  bool* result = nullptr;
};
Cost cost(const SquaresArgs& a) { return {2.0 * double(a.x.numel()), bytes_of({a.x})}; }
Cost cost(const FiniteArgs& a) { return {double(a.x.numel()), bytes_of({a.x})}; }

void adamw_ref(const AdamWArgs& a) {
  if (a.param.dtype() == DType::f64)
    ref::adamw<double>(a);
  else
    ref::adamw<float>(a);
}
void sum_of_squares_ref(const SquaresArgs& a) {
  dispatch_float(a.x.dtype(), [&]<class T>() { *a.result = ref::sum_of_squares(a.x.data<T>(), a.x.numel()); });
}
void all_finite_ref(const FiniteArgs& a) {
  dispatch_float(a.x.dtype(), [&]<class T>() { *a.result = ref::all_finite(a.x.data<T>(), a.x.numel()); });
}

}  // namespace

Cost cost(const AdamWArgs& a) {
  return {16.0 * double(a.param.numel()), bytes_of({a.param, a.gradient, a.m, a.v, a.shadow})};
}

// spec: train.adam | optimiser | Adam with decoupled weight decay (AdamW), one pass | TB 6.1.7; TH Tables 2.4, 3.11, 4.9; HP 5.1
void adamw(const AdamWArgs& a) {
  const char* op = "adamw";
  const Named param{"param", a.param};
  check(a.param && (a.param.dtype() == DType::f32 || a.param.dtype() == DType::f64), op, "param must be f32 or f64",
        a.param ? cat(", got ", a.param.dtype(), a.param.shape()) : ", got none");
  check_like(op, {"gradient", a.gradient}, param);
  check_like(op, {"m", a.m}, param);
  check_like(op, {"v", a.v}, param);
  if (a.shadow)
    check(a.shadow.dtype() == DType::bf16 && a.shadow.numel() == a.param.numel() && a.shadow.device() == a.param.device(), op,
          "shadow must be bf16", a.param.shape(), " to match param, got ", a.shadow.dtype(), a.shadow.shape());
  check(a.step >= 1, op, "step counts from 1, got ", a.step);
  check(a.beta1 >= 0 && a.beta1 < 1 && a.beta2 >= 0 && a.beta2 < 1, op, "beta1 and beta2 must be in [0, 1), got ", a.beta1, " and ", a.beta2);
  run_kernel(op, a.param.is_meta(), {Implementation<AdamWArgs>{"ref", Isa::generic, nullptr, adamw_ref}}, a);
}

double sum_of_squares(const Tensor& x) {
  check_rows("sum_of_squares", {"x", x});
  double result = 0;
  const SquaresArgs args{x, &result};
  run_kernel("sum_of_squares", x.is_meta(), {Implementation<SquaresArgs>{"ref", Isa::generic, nullptr, sum_of_squares_ref}}, args);
  return result;
}

bool all_finite(const Tensor& x) {
  check_rows("all_finite", {"x", x});
  bool result = true;
  const FiniteArgs args{x, &result};
  run_kernel("all_finite", x.is_meta(), {Implementation<FiniteArgs>{"ref", Isa::generic, nullptr, all_finite_ref}}, args);
  return result;
}

}  // namespace lithe::kernels
