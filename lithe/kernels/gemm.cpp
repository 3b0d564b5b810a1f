#include "lithe/kernels/gemm.h"

#include "lithe/kernels/onednn.h"
#include "lithe/kernels/ref/gemm.h"

namespace lithe::kernels {
namespace {

void check_args(const GemmArgs& args) {
  const auto& [a, b, c, bias, transpose_a, transpose_b, accumulate, rowwise] = args;
  check(a.defined() && b.defined() && c.defined(), "gemm", "a, b and c must be tensors");
  const auto operands = [&] {
    return cat("a ", a.dtype(), a.shape(), transpose_a ? " transposed" : "", ", b ", b.dtype(), b.shape(), transpose_b ? " transposed" : "",
               ", c ", c.dtype(), c.shape());
  };
  const bool matrices = a.shape().rank() == 2 && b.shape().rank() == 2 && c.shape().rank() == 2;
  if (!matrices || a.dim(transpose_a ? 0 : 1) != b.dim(transpose_b ? 1 : 0) || a.dim(transpose_a ? 1 : 0) != c.dim(0) ||
      b.dim(transpose_b ? 0 : 1) != c.dim(1))
    fail("gemm", "op(a) must be [M,K], op(b) [K,N] and c [M,N], got ", operands());
  const bool types = a.dtype() == b.dtype() && ((a.dtype() == DType::f64 && c.dtype() == DType::f64) ||
                                                (a.dtype() == DType::f32 && c.dtype() == DType::f32) ||
                                                (a.dtype() == DType::bf16 && (c.dtype() == DType::bf16 || c.dtype() == DType::f32)));
  if (!types) fail("gemm", "types must be f64 x f64 -> f64, f32 x f32 -> f32 or bf16 x bf16 -> bf16 or f32, got ", operands());
  const DType bias_type = c.dtype() == DType::f64 ? DType::f64 : DType::f32;
  if (bias && (bias.shape() != Shape{c.dim(1)} || bias.dtype() != bias_type))
    fail("gemm", "bias must be ", bias_type, Shape{c.dim(1)}, ", got ", bias.dtype(), bias.shape(), " with ", operands());
  if (a.device() != c.device() || b.device() != c.device() || (bias && bias.device() != c.device()))
    fail("gemm", "a, b, c and bias must all be on the meta device or none: ", operands());
}

void run_reference(const GemmArgs& args) {
  const int64_t M = args.c.dim(0), N = args.c.dim(1), K = args.a.dim(args.transpose_a ? 0 : 1);
  const auto run = [&]<class T, class Out, class Bias>(T, Out, Bias) {
    ref::gemm(args.a.data<T>(), args.b.data<T>(), args.bias ? args.bias.data<Bias>() : nullptr, args.c.data<Out>(), M, N, K,
              args.transpose_a, args.transpose_b, args.accumulate);
  };
  if (args.c.dtype() == DType::f64)
    run(double(), double(), double());
  else if (args.a.dtype() == DType::f32)
    run(float(), float(), float());
  else if (args.c.dtype() == DType::f32)
    run(bf16(), float(), float());
  else
    run(bf16(), bf16(), float());
}

// On meta tensors: books the workspace that the implementation would take, so that the planned peak
// is the real one.
void book_workspace(const GemmArgs& args) {
  if (reference_only() || onednn_refuses(args)) return;
  const MemoryScope scope(MemoryClass::workspace);
  empty({onednn_workspace(args)}, DType::u8, Device::meta);
}

}  // namespace

Cost cost(const GemmArgs& args) {
  const double K = double(args.a.dim(args.transpose_a ? 0 : 1));
  return {2 * double(args.c.numel()) * K,
          double(args.a.bytes() + args.b.bytes() + (args.accumulate ? 2 : 1) * args.c.bytes() + (args.bias ? args.bias.bytes() : 0))};
}

void gemm(const GemmArgs& args) {
  check_args(args);
  if (args.c.numel() == 0) return;
  if (args.c.is_meta()) book_workspace(args);
  run_kernel("gemm", args.c.is_meta(),
             {Implementation<GemmArgs>{"onednn", Isa::generic, onednn_refuses, onednn_gemm},
              Implementation<GemmArgs>{"ref", Isa::generic, nullptr, run_reference}},
             args);
}

}  // namespace lithe::kernels
