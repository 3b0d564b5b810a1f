#include "lithe/kernels/cases.h"
#include "lithe/kernels/taylor_attention/taylor_attention.h"

namespace lithe::kernels {

void add_cases_taylor_attention(KernelCases& c) {
  constexpr int64_t rows = 2048, columns = 512, size = 32;
  TaylorArgs taylor{.kind = TaylorKind::diag,
                    .q = c.part(c.x, {rows, columns}),
                    .k = c.part(c.u, {rows, columns}),
                    .v = c.part(c.x, {rows, columns}),
                    .out = c.part(c.y, {rows, columns}),
                    .sums = c.cleared({rows, columns / size}, DType::f32)};
  taylor.heads = columns / size, taylor.head_dim = taylor.value_dim = size, taylor.scale = 1 / std::sqrt(double(size));
  for (int64_t row = 0; row < rows; row += 512) taylor.segments.push_back({row, 512, 0, {}});
  c.add(cat("scan taylor 4x512 ", c.type), cost(taylor), Compute::f32, Traffic::read,
        [taylor] { taylor_attention(taylor); });
}

}  // namespace lithe::kernels
