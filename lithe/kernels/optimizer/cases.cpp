#include "lithe/kernels/cases.h"
#include "lithe/kernels/optimizer/optimizer.h"

namespace lithe::kernels {

void add_cases_optimizer(KernelCases& c) {
  if (c.type != DType::f32) return;  // masters are f32
  const Shape shape{int64_t(1) << 22};
  AdamWArgs adam{.param = c.filled(shape, DType::f32),
                 .gradient = c.part(c.x, shape),
                 .m = c.cleared(shape, DType::f32),
                 .v = c.cleared(shape, DType::f32),
                 .lr = 1e-6};
  const std::vector<Tensor> updated{adam.param, adam.m, adam.v};
  c.pass("adamw", adamw, adam, updated);
  adam.shadow = c.cleared(shape, DType::bf16);
  c.pass("adamw with bf16 copy", adamw, adam, updated);
  AdamWArgs halves = adam;
  halves.shadow = Tensor();
  halves.param = c.cleared(shape, DType::bf16);
  halves.rest = c.cleared({shape.numel(), 2}, DType::u8);
  c.pass("adamw, split weights", adamw, halves, {halves.param, halves.rest, halves.m, halves.v});
  AdamWArgs coded = halves;
  coded.m = c.cleared(shape, DType::i8);
  coded.v = c.cleared(shape, DType::u8);
  coded.m_scale = c.cleared({state_blocks(shape.numel())}, DType::f32);
  coded.v_scale = c.cleared({state_blocks(shape.numel())}, DType::f32);
  c.pass("adamw, split weights, 8-bit states", adamw, coded, {coded.param, coded.rest, coded.m, coded.v});
}

}  // namespace lithe::kernels
