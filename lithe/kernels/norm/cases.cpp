#include "lithe/kernels/cases.h"
#include "lithe/kernels/norm/norm.h"

namespace lithe::kernels {

void add_cases_norm(KernelCases& c) {
  c.pass("rms norm", norm,
         NormArgs{.kind = NormKind::rms, .x = c.x, .weight = c.vector, .y = c.y, .scale = c.row_numbers});
  c.pass("layer norm", norm,
         NormArgs{.kind = NormKind::layer_variance, .x = c.x, .weight = c.vector, .bias = c.vector, .y = c.y});
  c.pass("rms norm backward", norm_grad,
         NormGradArgs{.kind = NormKind::rms,
                      .x = c.x,
                      .weight = c.vector,
                      .scale = c.row_scales,
                      .dy = c.u,
                      .dx = c.z,
                      .dweight = c.vector_grad});
}

}  // namespace lithe::kernels
