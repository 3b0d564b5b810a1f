#include "lithe/kernels/cases.h"
#include "lithe/kernels/linear_recurrence/linear_recurrence.h"

namespace lithe::kernels {

// Width 512, 8 heads of 64: linear attention with divisors, a gate for each head and for each channel, the delta rule.
void add_cases_linear_recurrence(KernelCases& c) {
  constexpr int64_t rows = 2048, length = 512, heads = 8, size = 64, width = heads * size;
  const Tensor gates = c.cleared({rows, width}, DType::f32), ones = c.cleared({rows, heads}, DType::f32);
  for (const char* kind : {"linear", "gated", "channels", "delta"}) {
    const std::string name = kind;
    LinearRecurrenceArgs args;
    args.q = c.part(c.x, {rows, width}), args.k = c.part(c.u, {rows, width});
    args.v = c.x.reshape({c.x.numel()}).slice(rows * width, 2 * rows * width).reshape({rows, width});
    args.out = empty({rows, width}, c.type, c.device);
    args.heads = heads, args.key_dim = args.value_dim = size;
    args.normalise = name == "linear", args.delta = name == "delta";
    if (args.normalise) args.divisors = empty({rows, heads}, DType::f32, c.device);
    if (name == "gated") args.log_decay = ones;
    if (name == "channels") args.log_decay = gates;
    if (args.delta) args.write = ones;
    for (int64_t row = 0; row < rows; row += length) args.segments.push_back({row, length, {}});
    LinearRecurrenceGradArgs grad{.forward = args, .dout = args.v};
    for (Tensor* t : {&grad.dq, &grad.dk, &grad.dv}) *t = empty({rows, width}, c.type, c.device);
    if (args.log_decay) grad.dlog_decay = c.cleared(args.log_decay.shape(), DType::f32);
    if (args.write) grad.dwrite = c.cleared(args.write.shape(), DType::f32);
    const std::string of = cat(" ", name, " 4x", length, " ", c.type);
    c.add("scan" + of, cost(args), Compute::f32, Traffic::read, [args] { linear_recurrence(args); });
    c.add("scan backward" + of, cost(grad), Compute::f32, Traffic::read, [grad] { linear_recurrence_grad(grad); });
    linear_recurrence(args);
  }
}

}  // namespace lithe::kernels
