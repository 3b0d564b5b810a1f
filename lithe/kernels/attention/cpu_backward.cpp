#include "lithe/kernels/attention/cpu_backward.h"

namespace lithe::kernels::cpu::LITHE_ISA {

void attention_backward(const AttentionCall& call) {
  if (call.dtype == DType::f32) backward::run<Floats>(call);
#if defined(__AVX512BF16__)
  else if (call.head_dim % 2 == 0 && call.value_dim % 2 == 0)
    backward::run<Paired>(call);
#endif
  else
    backward::run<Widened<bf16>>(call);
  if (call.extras.gradients) call.finish_gradients(*call.plan);
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
