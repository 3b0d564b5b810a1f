#include "lithe/kernels/gemm/gemm.h"

#include "lithe/base/threads.h"
#include "lithe/kernels/gemm/cpu.h"
#include "lithe/kernels/gemm/grouped_gemm.h"
#include "lithe/kernels/gemm/reference.h"
#include "lithe/kernels/tile_support.h"

namespace lithe::kernels {
namespace {

void check_args(const GemmArgs& args) {
  const auto& [a, numbers, c, bias, transpose_a, transpose_b, accumulate, rowwise, packed] = args;
  check(!packed || (!numbers && packed->data && !integers(packed->format) && packed->by_rows == transpose_b &&
                    !transpose_a && rowwise),
        "gemm", "a packed matrix must hold numbers, be packed the way it is read, and stand in place of b");
  check(a.defined() && (packed || numbers.defined()) && c.defined(), "gemm", "a, b and c must be tensors");
  const Tensor& b = packed ? packed->data : numbers;
  const Shape b_shape = packed ? packed->shape() : b.shape();
  const auto operands = [&, &a = a, &c = c, transpose_a = transpose_a, transpose_b = transpose_b] {
    return cat("a ", a.dtype(), a.shape(), transpose_a ? " transposed" : "", ", b ", b.dtype(), b_shape,
               transpose_b ? " transposed" : "", ", c ", c.dtype(), c.shape());
  };
  const bool matrices = a.shape().rank() == 2 && b_shape.rank() == 2 && c.shape().rank() == 2;
  if (!matrices || a.dim(transpose_a ? 0 : 1) != b_shape[transpose_b ? 1 : 0] ||
      a.dim(transpose_a ? 1 : 0) != c.dim(0) || b_shape[transpose_b ? 0 : 1] != c.dim(1))
    fail("gemm", "op(a) must be [M,K], op(b) [K,N] and c [M,N], got ", operands());
  const bool types =
      a.dtype() == b.dtype() &&
      ((a.dtype() == DType::f64 && c.dtype() == DType::f64) || (a.dtype() == DType::f32 && c.dtype() == DType::f32) ||
       (a.dtype() == DType::bf16 && (c.dtype() == DType::bf16 || c.dtype() == DType::f32)));
  if (!types)
    fail("gemm", "types must be f64 x f64 -> f64, f32 x f32 -> f32 or bf16 x bf16 -> bf16 or f32, got ", operands());
  const DType bias_type = wide_of(c.dtype());
  if (bias && (bias.shape() != Shape{c.dim(1)} || bias.dtype() != bias_type))
    fail("gemm", "bias must be ", bias_type, Shape{c.dim(1)}, ", got ", bias.dtype(), bias.shape(), " with ",
         operands());
  if (a.device() != c.device() || b.device() != c.device() || (bias && bias.device() != c.device()))
    fail("gemm", "a, b, c and bias must all be on the meta device or none: ", operands());
}

void run_reference(const Product& product) {
  const GemmArgs& args = *product.args;
  const int64_t M = args.c.dim(0), N = args.c.dim(1), K = args.a.dim(args.transpose_a ? 0 : 1);
  const Tensor b = args.packed ? unpacked(*args.packed) : args.b;
  const auto run = [&]<class T, class Out, class Bias>(T, Out, Bias) {
    ref::gemm(args.a.data<T>(), b.data<T>(), args.bias ? args.bias.data<Bias>() : nullptr, args.c.data<Out>(), M, N, K,
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

Product product_of(const GemmArgs& args) {
  return {.args = &args,
          .M = args.c.dim(0),
          .N = args.c.dim(1),
          .K = args.a.dim(args.transpose_a ? 0 : 1),
          .a = args.a.raw(),
          .b = args.packed ? args.packed->data.raw() : args.b.raw(),
          .bias = args.bias && args.bias.dtype() == DType::f32 ? static_cast<const float*>(args.bias.raw()) : nullptr,
          .c = args.c.raw(),
          .packed = args.packed != nullptr,
          .transpose_a = args.transpose_a,
          .transpose_b = args.transpose_b,
          .accumulate = args.accumulate,
          .bf16_in = args.a.dtype() == DType::bf16,
          .bf16_out = args.c.dtype() == DType::bf16,
          .threads = threads()};
}

const char* refuse_f64(const Product& p) {
  return p.args->c.dtype() == DType::f64 ? "f64 runs on the reference" : nullptr;
}

// Rows that vectors read b for as fast as it comes; products that are not rowwise may choose.
constexpr int64_t kTileFewRows = 8;

const char* refuse_tiles(const Product& p) {
  if (!p.bf16_in) return "tiles multiply bf16";
  if (p.K == 0) return "nothing to multiply";
  if (!p.args->rowwise && p.M <= kTileFewRows) return "few rows are read faster by vectors";
  return nullptr;
}
bool runs_on_tiles(const Product& p) { return tiles_can_run() && !refuse_tiles(p); }

const char* refuse_skinny(const Product& p) {
  if (p.M > kSkinnyRows) return "too many rows";
  return refuse_f64(p);
}

int64_t workspace_of(const Product& p) {
  if (reference_only() || refuse_f64(p)) return 0;
  if (runs_on_tiles(p)) return TileWorkspace(p.M, p.N, p.K, p.packed, p.transpose_a, p.threads).bytes();
  if (!refuse_skinny(p)) return skinny_workspace(p.M, p.K);
  return blocked_workspace(p);
}

void run(const Product& product) {
  run_kernel<Product>("gemm", product.args->c.is_meta(),
                      {LITHE_TILE_LIST(tiles, refuse_tiles),
                       LITHE_CPU_LIST(skinny, refuse_skinny),
                       LITHE_CPU_LIST(blocked, refuse_f64),
                       {"ref", Isa::generic, nullptr, run_reference}},
                      product);
}

}  // namespace

Cost cost(const GemmArgs& args) {
  const double K = double(args.a.dim(args.transpose_a ? 0 : 1));
  return {2 * double(args.c.numel()) * K,
          double(args.a.bytes() + (args.packed ? args.packed->bytes() : args.b.bytes()) +
                 (args.accumulate ? 2 : 1) * args.c.bytes() + (args.bias ? args.bias.bytes() : 0))};
}

void gemm(const GemmArgs& args) {
  check_args(args);
  if (args.c.numel() == 0) return;
  Product product = product_of(args);
  // On meta tensors too, so that the planned peak is the real one.
  const MemoryScope scope(MemoryClass::workspace);
  const Tensor workspace = empty({workspace_of(product)}, DType::u8, args.c.device());
  product.workspace = workspace.raw();
  run(product);
}

namespace {

void check_groups(const char* op, const std::vector<int64_t>& offsets, int64_t rows, size_t groups) {
  bool sorted = !offsets.empty() && offsets.front() == 0 && offsets.back() == rows && offsets.size() == groups + 1;
  for (size_t g = 0; sorted && g < groups; ++g) sorted = offsets[g] <= offsets[g + 1];
  check(sorted, op, "offsets must be ", groups + 1, " numbers that rise from 0 to ", rows, ", one more than matrices");
}

// What any rowwise product of `least` to M rows and at most K terms, with N columns, may need; `input` is the type of a
// and b.
int64_t largest_workspace(int64_t least, int64_t M, int64_t N, int64_t K, bool transpose_a, bool bf16_out,
                          DType input) {
  if (reference_only() || input == DType::f64) return 0;
  Product p{};
  p.N = N, p.K = K, p.transpose_a = transpose_a, p.bf16_in = input == DType::bf16, p.bf16_out = bf16_out;
  p.threads = threads();
  int64_t bytes = M > kSkinnyRows ? blocked_workspace(p) : 0;
  if (least <= kSkinnyRows) bytes = std::max(bytes, skinny_workspace(std::min(M, kSkinnyRows), K));
  if (tiles_can_run() && input == DType::bf16)
    bytes = std::max(bytes, TileWorkspace(M, N, K, false, transpose_a, p.threads).bytes());
  return bytes;
}

// The products of the groups that have rows, one after another.
template <class ArgsOf>
void run_groups(const char* op, const Tensor& rows, const std::vector<int64_t>& offsets, int64_t bytes,
                const Cost& work, ArgsOf args_of) {
  const MemoryScope scope(MemoryClass::workspace);
  const Tensor workspace = empty({bytes}, DType::u8, rows.device());
  if (rows.is_meta()) return book_cost(op, work);
  for (size_t g = 0; g + 1 < offsets.size(); ++g) {
    if (offsets[g] == offsets[g + 1]) continue;
    const GemmArgs args = args_of(g, offsets[g], offsets[g + 1]);
    check_args(args);
    Product product = product_of(args);
    product.workspace = workspace.raw();
    run(product);
  }
}

double spread_over(int64_t rows, size_t groups) { return double(std::min<int64_t>(rows, int64_t(groups))); }

}  // namespace

Cost cost(const GroupedGemmArgs& args) {
  const double matrices = spread_over(args.a.rows(), args.b.size());
  return {2 * double(args.c.numel()) * double(args.a.cols()),
          double(args.a.bytes() + (args.accumulate ? 2 : 1) * args.c.bytes()) +
              matrices * double(args.b[0].bytes() + (args.bias.empty() ? 0 : args.bias[0].bytes()))};
}

void grouped_gemm(const GroupedGemmArgs& args) {
  const char* op = "grouped_gemm";
  check(!args.b.empty() && (args.bias.empty() || args.bias.size() == args.b.size()), op,
        "needs a matrix a group, and a bias for each or none; got ", args.b.size(), " and ", args.bias.size());
  check_groups(op, args.offsets, args.a.rows(), args.b.size());
  if (args.c.numel() == 0) return;
  run_groups(op, args.c, args.offsets,
             largest_workspace(1, args.a.rows(), args.c.cols(), args.a.cols(), false, args.c.dtype() == DType::bf16,
                               args.a.dtype()),
             cost(args), [&](size_t g, int64_t begin, int64_t end) {
               return GemmArgs{.a = args.a.slice(begin, end),
                               .b = args.b[g],
                               .c = args.c.slice(begin, end),
                               .bias = args.bias.empty() ? Tensor() : args.bias[g],
                               .transpose_b = args.transpose_b,
                               .accumulate = args.accumulate,
                               .rowwise = true};
             });
}

Cost cost(const GroupedGradArgs& args) {
  return {2 * double(args.a.numel()) * double(args.b.cols()),
          double(args.a.bytes() + args.b.bytes()) + double(args.c.size()) * double(args.c[0].bytes())};
}

void grouped_grad(const GroupedGradArgs& args) {
  const char* op = "grouped_grad";
  check(!args.c.empty() && args.accumulate.size() == args.c.size() && args.a.rows() == args.b.rows(), op,
        "needs a matrix a group and equally many rows of a and b; got ", args.c.size(), " matrices, a ", args.a.shape(),
        ", b ", args.b.shape());
  check_groups(op, args.offsets, args.a.rows(), args.c.size());
  for (size_t g = 0; g < args.c.size(); ++g)
    if (args.offsets[g] == args.offsets[g + 1] && !args.accumulate[g]) fill_zero(args.c[g]);
  const int64_t rows = args.a.rows();
  const int64_t M = args.a.cols(), N = args.b.cols();
  const int64_t bytes = largest_workspace(M, M, N, rows, true, false, args.a.dtype());
  run_groups(op, args.c[0], args.offsets, bytes, cost(args), [&](size_t g, int64_t begin, int64_t end) {
    return GemmArgs{.a = args.a.slice(begin, end),
                    .b = args.b.slice(begin, end),
                    .c = args.c[g],
                    .transpose_a = true,
                    .accumulate = args.accumulate[g],
                    .rowwise = true};
  });
}

}  // namespace lithe::kernels
