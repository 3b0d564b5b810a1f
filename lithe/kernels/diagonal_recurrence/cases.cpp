#include "lithe/kernels/cases.h"
#include "lithe/kernels/diagonal_recurrence/diagonal_recurrence.h"

namespace lithe::kernels {

// Learned factors of each channel; gates of each row; complex channels.
void add_cases_diagonal_recurrence(KernelCases& c) {
  constexpr int64_t rows = KernelCases::rows / 2, columns = KernelCases::columns, length = 1024;
  const Shape shape{rows, columns};
  const Tensor gates = c.cleared(shape, DType::f32);
  for (const bool gated : {false, true})
    for (const bool complex : {false, true}) {
      if (gated && complex) continue;
      DiagonalRecurrenceArgs args{.x = c.part(c.x, shape),
                                  .a = gated ? gates : c.cleared({columns}, DType::f32),
                                  .y = c.part(c.y, shape),
                                  .complex = complex};
      for (int64_t row = 0; row < rows; row += length) args.segments.push_back({row, length, {}});
      const DiagonalRecurrenceGradArgs grad{.forward = args,
                                            .dy = c.part(c.u, shape),
                                            .dx = c.part(c.z, shape),
                                            .da = c.cleared(args.a.shape(), DType::f32)};
      const std::string of = cat(gated ? " gated" : complex ? " complex" : "", " 4x", length, " ", c.type);
      c.add("chain" + of, cost(args), Compute::f32, Traffic::copy, [args] { diagonal_recurrence(args); });
      c.add("chain backward" + of, cost(grad), Compute::f32, Traffic::copy, [grad] { diagonal_recurrence_grad(grad); });
    }
}

}  // namespace lithe::kernels
