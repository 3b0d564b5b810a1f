#include "lithe/kernels/cases.h"
#include "lithe/kernels/convolution/convolution.h"

namespace lithe::kernels {

// Four taps, as before state spaces, and seven: their work hides behind the memory. Thirty-one do not.
void add_cases_convolution(KernelCases& c) {
  constexpr int64_t length = 1024;
  for (const int64_t taps : {4, 7, 31}) {
    ConvolutionArgs args{.x = c.x, .w = c.cleared({taps, KernelCases::columns}, DType::f32), .y = c.y};
    for (int64_t row = 0; row < KernelCases::rows; row += length) args.segments.push_back({row, length, {}});
    const ConvolutionGradArgs grad{
        .forward = args, .dy = c.u, .dx = c.z, .dw = c.cleared({taps, KernelCases::columns}, DType::f32)};
    const std::string of = cat(" ", taps, " taps ", c.type);
    c.add("convolution" + of, cost(args), Compute::f32, Traffic::copy, [args] { convolution(args); });
    c.add("convolution backward" + of, cost(grad), Compute::f32, Traffic::copy, [grad] { convolution_grad(grad); });
  }
  constexpr int64_t taps = 3, width = 512;
  UnfoldArgs side{
      .x = c.part(c.x, {KernelCases::rows, width}), .y = c.part(c.y, {KernelCases::rows, taps * width}), .taps = taps};
  for (int64_t row = 0; row < KernelCases::rows; row += length) side.segments.push_back({row, length, {}});
  c.add(cat("unfold ", c.type), cost(side), Compute::f32, Traffic::copy, [side] { unfold(side); });
}

}  // namespace lithe::kernels
