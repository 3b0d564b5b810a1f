#include "lithe/kernels/cases.h"
#include "lithe/kernels/cross_entropy/cross_entropy.h"

namespace lithe::kernels {

void add_cases_cross_entropy(KernelCases& c) {
  c.pass("softmax", softmax, SoftmaxArgs{.x = c.x, .y = c.y});
  c.pass("cross-entropy", cross_entropy,
         CrossEntropyArgs{.logits = c.y,
                          .labels = c.ids_below(c.rows, c.columns),
                          .losses = c.row_numbers,
                          .gradient_scale = 1e-3,
                          .gradient = true},
         {c.y});
}

}  // namespace lithe::kernels
