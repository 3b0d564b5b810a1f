#include "lithe/kernels/int4_rows/int4_rows.h"

#include "lithe/kernels/checks.h"
#include "lithe/kernels/int4_rows/reference.h"

LITHE_DECLARE_CPU(quantize_int4_rows, lithe::kernels::QuantizeInt4RowsArgs)
LITHE_DECLARE_CPU(dequantize_int4_rows, lithe::kernels::DequantizeInt4RowsArgs)

namespace lithe::kernels {
namespace {

void quantize_int4_rows_ref(const QuantizeInt4RowsArgs& args) {
  dispatch_float(args.x.dtype(), [&]<class T>() { ref::quantize_int4_rows<T>(args); });
}
void dequantize_int4_rows_ref(const DequantizeInt4RowsArgs& args) {
  dispatch_float(args.out.dtype(), [&]<class T>() { ref::dequantize_int4_rows<T>(args); });
}
const char* refuse(const QuantizeInt4RowsArgs& args) { return refuse_f64(args.x); }
const char* refuse(const DequantizeInt4RowsArgs& args) { return refuse_f64(args.out); }

void check_operands(const char* op, const Named& rows, const Tensor& codes, const Tensor& scales, int64_t heads) {
  check_rows(op, rows);
  const Tensor& x = rows.tensor;
  if (heads < 1 || x.cols() % heads != 0)
    fail(op, rows.name, " ", x.shape(), " must have a multiple of ", heads, " heads as columns");
  const Int4Rows of{heads, x.cols() / heads};
  const auto is = [&](const Tensor& t, DType type, int64_t cols) {
    return t && t.shape() == Shape{x.rows(), cols} && t.dtype() == type && t.device() == x.device();
  };
  if (!is(codes, DType::u8, of.bytes()))
    fail(op, "codes must be u8 [", x.rows(), ",", of.bytes(), "] for ", heads, " heads of ", rows.name, " ", x.shape(),
         ", got ", codes);
  if (!is(scales, DType::bf16, of.scales()))
    fail(op, "scales must be bf16 [", x.rows(), ",", of.scales(), "] for ", heads, " heads of ", rows.name, " ",
         x.shape(), ", got ", scales);
}

}  // namespace

Cost cost(const QuantizeInt4RowsArgs& args) {
  return {3.0 * double(args.x.numel()), bytes_of({args.x, args.codes, args.scales})};
}

void quantize_int4_rows(const QuantizeInt4RowsArgs& args) {
  const char* op = "quantize_int4_rows";
  check_operands(op, {"x", args.x}, args.codes, args.scales, args.heads);
  run_kernel<QuantizeInt4RowsArgs>(
      op, args.x.is_meta(),
      {LITHE_CPU_STREAMS(quantize_int4_rows, refuse), {"ref", Isa::generic, nullptr, quantize_int4_rows_ref}}, args);
}

Cost cost(const DequantizeInt4RowsArgs& args) {
  return {2.0 * double(args.out.numel()), bytes_of({args.codes, args.scales, args.out})};
}

void dequantize_int4_rows(const DequantizeInt4RowsArgs& args) {
  const char* op = "dequantize_int4_rows";
  check_operands(op, {"out", args.out}, args.codes, args.scales, args.heads);
  run_kernel<DequantizeInt4RowsArgs>(
      op, args.out.is_meta(),
      {LITHE_CPU_STREAMS(dequantize_int4_rows, refuse), {"ref", Isa::generic, nullptr, dequantize_int4_rows_ref}},
      args);
}

}  // namespace lithe::kernels
