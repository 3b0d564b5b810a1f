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
}

}  // namespace lithe::kernels
