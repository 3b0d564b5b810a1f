// spec: hpc.flash | kernel | tiles with a running maximum and sum; the map is never stored | TB 6.4.9
#include "lithe/kernels/attention/cpu_forward.h"

namespace lithe::kernels::cpu::LITHE_ISA {

void attention_forward(const AttentionCall& call) {
  const bool turns = call.turn.frequencies;
  if (call.dtype == DType::f32)
    return call.key_dtype == DType::f32 && !turns ? forward::run<Floats>(call) : forward::run<Widened<float>>(call);
#if defined(__AVX512BF16__)
  if (call.key_dtype == DType::bf16 && call.head_dim % 2 == 0 && !turns) return forward::run<Paired>(call);
#endif
  forward::run<Widened<bf16>>(call);
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
