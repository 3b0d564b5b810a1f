#include "lithe/kernels/attention/cpu_backward.h"
#include "lithe/kernels/attention/tiles.h"

namespace lithe::kernels::cpu::LITHE_ISA {

void attention_tiles_backward(const AttentionCall& call) {
  backward::run<Tiled>(call);
  if (call.extras.gradients) call.finish_gradients(*call.plan);
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
