#include "lithe/kernels/cases.h"
#include "lithe/kernels/elementwise/elementwise.h"

namespace lithe::kernels {

void add_cases_elementwise(KernelCases& c) {
  c.pass("gelu", activation, ActivationArgs{.kind = Activation::gelu, .x = c.x, .y = c.y});
  c.pass("gelu backward", activation_grad,
         ActivationGradArgs{.kind = Activation::gelu, .x = c.x, .dy = c.u, .dx = c.z});
  c.pass("swiglu", gated, GatedArgs{.kind = Activation::silu, .gate = c.x, .up = c.u, .y = c.y});
  c.pass("add", lithe::kernels::add, AddArgs{.a = c.x, .b = c.u, .out = c.y});
}

}  // namespace lithe::kernels
