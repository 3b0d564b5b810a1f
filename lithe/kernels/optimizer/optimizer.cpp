#include "lithe/kernels/optimizer/optimizer.h"

#include "lithe/base/threads.h"
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
  return {16.0 * double(a.param.numel()),
          bytes_of({a.param, a.gradient, a.m, a.v, a.shadow, a.m_scale, a.v_scale, a.rest})};
}

namespace {

void check_split(const char* op, const Named& high, const Named& rest) {
  check(high.tensor.dtype() == DType::bf16, op, high.name, " beside ", rest.name, " must be bf16, got ", high.tensor);
  check(rest.tensor.dtype() == DType::u8 && rest.tensor.numel() == 2 * high.tensor.numel() &&
            rest.tensor.device() == high.tensor.device(),
        op, rest.name, " must be u8[", high.tensor.numel(), ",2] to match ", high.name, high.tensor.shape(), ", got ",
        rest.tensor);
}

void check_codes(const char* op, const Named& codes, const Named& scale, DType type, const Named& param) {
  check(param.tensor.dtype() != DType::f64, op, "8-bit states need an f32 param, got f64");
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
  if (a.rest) {
    check(!a.shadow, op, "a split param is what the forward pass reads; give no shadow");
    check_split(op, param, {"rest", a.rest});
  } else {
    check(a.param.dtype() != DType::bf16, op, "param must be f32 or f64, or bf16 with its rest, got bf16",
          a.param.shape());
  }
  const auto check_wide = [&](const char* name, const Tensor& t) {
    if (!a.rest) return check_like(op, {name, t}, param);
    check_shape_like(op, {name, t}, param);
    check(t.dtype() == DType::f32, op, name, " of a split param must be f32, got ", t);
  };
  check_wide("gradient", a.gradient);
  check(a.m_scale.defined() == a.v_scale.defined(), op, "m_scale and v_scale belong together; give both or none");
  if (a.m_scale) {
    check_codes(op, {"m", a.m}, {"m_scale", a.m_scale}, DType::i8, param);
    check_codes(op, {"v", a.v}, {"v_scale", a.v_scale}, DType::u8, param);
  } else {
    check_wide("m", a.m);
    check_wide("v", a.v);
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

void split(const Tensor& wide, const Tensor& high, const Tensor& rest) {
  check_split("split", {"high", high}, {"rest", rest});
  check_shape_like("split", {"wide", wide}, {"high", high});
  if (wide.is_meta()) return;
  const float* from = wide.data<float>();
  bf16* to = high.data<bf16>();
  int16_t* lower = ref::rest_of(rest);
  parallel_for(wide.numel(), 1 << 16, [=](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) ref::split(from[i], to[i], lower[i]);
  });
}

void join(const Tensor& high, const Tensor& rest, const Tensor& wide) {
  check_split("join", {"high", high}, {"rest", rest});
  check_shape_like("join", {"wide", wide}, {"high", high});
  if (wide.is_meta()) return;
  const bf16* from = high.data<bf16>();
  const int16_t* lower = ref::rest_of(rest);
  float* to = wide.data<float>();
  parallel_for(wide.numel(), 1 << 16, [=](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) to[i] = ref::joined(from[i], lower[i]);
  });
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
