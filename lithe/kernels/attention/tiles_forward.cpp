#include "lithe/kernels/attention/cpu_forward.h"
#include "lithe/kernels/attention/tiles.h"

namespace lithe::kernels::cpu::LITHE_ISA {

void attention_tiles(const AttentionCall& call) {
  forward::run<Tiled>(call);
  if (call.decodes) call.decode(call);
}

}  // namespace lithe::kernels::cpu::LITHE_ISA
