#include "lithe/kernels/cases.h"
#include "lithe/kernels/hadamard/hadamard.h"

namespace lithe::kernels {

void add_cases_hadamard(KernelCases& c) {
  c.pass("hadamard", hadamard,
         HadamardArgs{
             .x = c.x, .alpha = c.vector, .out = c.y, .order = c.columns, .scale = 1 / std::sqrt(double(c.columns))});
}

}  // namespace lithe::kernels
