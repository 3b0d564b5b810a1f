#include "lithe/kernels/optimizer/optimizer.h"

#include "lithe/kernels/checks.h"
#include "lithe/kernels/optimizer/cpu.h"
#include "lithe/kernels/optimizer/reference.h"

LITHE_DECLARE_CPU(adamw, AdamWArgs)
LITHE_DECLARE_CPU(sum_of_squares, SquaresTask)
LITHE_DECLARE_CPU(all_finite, FiniteTask)

namespace lithe::kernels {
namespace {

void adamw_ref(const AdamWArgs& a) {
  if (a.param.dtype() == DType::f64)
    ref::adamw<double>(a);
  else
    ref::adamw<float>(a);
}
void sum_of_squares_ref(const SquaresTask& task) {
  dispatch_float(task.x.dtype(),
                 [&]<class T>() { ref::sum_of_squares(task.x.data<T>(), task.x.numel(), kSquaresBlock, task.blocks); });
}
void all_finite_ref(const FiniteTask& task) {
  dispatch_float(task.x.dtype(), [&]<class T>() { *task.result = ref::all_finite(task.x.data<T>(), task.x.numel()); });
}

const char* refuse(const AdamWArgs& a) { return refuse_f64(a.param); }
const char* refuse(const SquaresTask& task) { return refuse_f64(task.x); }
const char* refuse(const FiniteTask& task) { return refuse_f64(task.x); }

}  // namespace

Cost cost(const AdamWArgs& a) {
  return {16.0 * double(a.param.numel()), bytes_of({a.param, a.gradient, a.m, a.v, a.shadow, a.m_scale, a.v_scale})};
}

namespace {

void check_codes(const char* op, const Named& codes, const Named& scale, DType type, const Named& param) {
  check(param.tensor.dtype() == DType::f32, op, "8-bit states need an f32 param, got ", param.tensor.dtype());
  check(codes.tensor.dtype() == type && codes.tensor.numel() == param.tensor.numel() &&
            codes.tensor.device() == param.tensor.device(),
        op, codes.name, " beside ", scale.name, " must be ", type, param.tensor.shape(), " to match param, got ",
        codes.tensor);
  check_vector(op, scale, state_blocks(param.tensor.numel()), DType::f32, param);
}

}  // namespace

// spec: train.adam | optimiser | Adam with decoupled weight decay (AdamW), one pass | TB 6.1.7; TH
// Tables 2.4, 3.11, 4.9; HP 5.1
void adamw(const AdamWArgs& a) {
  const char* op = "adamw";
  const Named param{"param", a.param};
  check_rows(op, param);
  check(a.param.dtype() != DType::bf16, op, "param must be f32 or f64, got bf16", a.param.shape());
  if (a.param.dtype() == DType::f32 && a.gradient.dtype() == DType::bf16)
    check_shape_like(op, {"gradient", a.gradient}, param);
  else
    check_like(op, {"gradient", a.gradient}, param);
  check(a.m_scale.defined() == a.v_scale.defined(), op, "m_scale and v_scale belong together; give both or none");
  if (a.m_scale) {
    check_codes(op, {"m", a.m}, {"m_scale", a.m_scale}, DType::i8, param);
    check_codes(op, {"v", a.v}, {"v_scale", a.v_scale}, DType::u8, param);
  } else {
    check_like(op, {"m", a.m}, param);
    check_like(op, {"v", a.v}, param);
  }
  if (a.shadow)
    check(
        a.shadow.dtype() == DType::bf16 && a.shadow.numel() == a.param.numel() && a.shadow.device() == a.param.device(),
        op, "shadow must be bf16", a.param.shape(), " to match param, got ", a.shadow.dtype(), a.shadow.shape());
  check(a.step >= 1, op, "step counts from 1, got ", a.step);
  check(a.beta1 >= 0 && a.beta1 < 1 && a.beta2 >= 0 && a.beta2 < 1, op, "beta1 and beta2 must be in [0, 1), got ",
        a.beta1, " and ", a.beta2);
  run_kernel<AdamWArgs>(op, a.param.is_meta(),
                        {LITHE_CPU_STREAMS(adamw, refuse), {"ref", Isa::generic, nullptr, adamw_ref}}, a);
}

double sum_of_squares(const Tensor& x) {
  const char* op = "sum_of_squares";
  check_rows(op, {"x", x});
  const MemoryScope scope(MemoryClass::workspace);
  const int64_t count = (x.numel() + kSquaresBlock - 1) / kSquaresBlock;
  const Tensor blocks({count}, DType::f64, x.device());
  run_kernel<SquaresTask>(
      op, x.is_meta(), {LITHE_CPU_STREAMS(sum_of_squares, refuse), {"ref", Isa::generic, nullptr, sum_of_squares_ref}},
      {x, blocks.data<double>()});
  double total = 0;
  if (!x.is_meta())
    for (int64_t b = 0; b < count; ++b) total += blocks.data<double>()[b];
  return total;
}

bool all_finite(const Tensor& x) {
  const char* op = "all_finite";
  check_rows(op, {"x", x});
  bool result = true;
  run_kernel<FiniteTask>(op, x.is_meta(),
                         {LITHE_CPU_STREAMS(all_finite, refuse), {"ref", Isa::generic, nullptr, all_finite_ref}},
                         {x, &result});
  return result;
}

}  // namespace lithe::kernels
