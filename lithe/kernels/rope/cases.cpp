#include "lithe/kernels/cases.h"
#include "lithe/kernels/rope/rope.h"

namespace lithe::kernels {

void add_cases_rope(KernelCases& c) {
  c.pass("rope", rope, RopeArgs{.x = c.x, .positions = c.ids, .out = c.y, .head_dim = 64});
}

}  // namespace lithe::kernels
