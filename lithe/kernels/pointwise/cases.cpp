#include "lithe/kernels/cases.h"
#include "lithe/kernels/pointwise/pointwise.h"

namespace lithe::kernels {

void add_cases_pointwise(KernelCases& c) {
  c.pass("sigmoid", pointwise, PointwiseArgs{.kind = Pointwise::sigmoid, .x = c.x, .y = c.y});
  c.pass("softplus", pointwise, PointwiseArgs{.kind = Pointwise::softplus, .x = c.x, .y = c.y});
  c.pass("sigmoid backward", pointwise_grad,
         PointwiseGradArgs{.kind = Pointwise::sigmoid, .x = c.x, .dy = c.u, .dx = c.z});
}

}  // namespace lithe::kernels
