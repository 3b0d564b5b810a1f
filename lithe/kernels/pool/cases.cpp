#include "lithe/kernels/cases.h"
#include "lithe/kernels/pool/pool.h"

namespace lithe::kernels {

// The largest of eight rows, as pictures halve their sides.
void add_cases_pool(KernelCases& c) {
  static const std::vector<int64_t> offsets = [] {
    std::vector<int64_t> of;
    for (int64_t row = 0; row <= KernelCases::rows; row += 8) of.push_back(row);
    return of;
  }();
  const Shape pooled{KernelCases::rows / 8, KernelCases::columns};
  const Tensor out = KernelCases::part(c.y, pooled), rows = c.ids_below(pooled.numel(), 1).reshape(pooled);
  const PoolArgs args{.x = c.x, .out = out, .rows = rows, .offsets = offsets, .kind = Pooling::max};
  c.add(cat("pool ", c.type), cost(args), Compute::f32, Traffic::read, [=] { pool(args); });
}

}  // namespace lithe::kernels
