#include "lithe/kernels/quantized_rows/quantized_rows.h"

#include "lithe/kernels/checks.h"
#include "lithe/kernels/quantized_rows/reference.h"

LITHE_DECLARE_CPU(quantize_rows, lithe::kernels::QuantizeRowsArgs)
LITHE_DECLARE_CPU(dequantize_rows, lithe::kernels::DequantizeRowsArgs)

namespace lithe::kernels {
namespace {

void quantize_rows_ref(const QuantizeRowsArgs& args) {
  dispatch_float(args.x.dtype(), [&]<class T>() { ref::quantize_rows<T>(args); });
}
void dequantize_rows_ref(const DequantizeRowsArgs& args) {
  dispatch_float(args.out.dtype(), [&]<class T>() { ref::dequantize_rows<T>(args); });
}
const char* refuse(const QuantizeRowsArgs& args) { return refuse_f64(args.x); }
const char* refuse(const DequantizeRowsArgs& args) { return refuse_f64(args.out); }

void check_operands(const char* op, const Named& rows, const Tensor& values, const Tensor& scales) {
  check_rows(op, rows);
  const Tensor& x = rows.tensor;
  const auto on_device = [&](const Tensor& t) { return t && t.shape().rank() == 2 && t.device() == x.device(); };
  if (!on_device(values) || values.dtype() != DType::i8 || values.shape() != x.shape())
    fail(op, "values must be i8 like ", rows.name, " ", x.shape(), ", got ", values);
  if (!on_device(scales) || scales.dtype() != DType::f32 || scales.rows() != x.rows() || scales.cols() < 1 ||
      x.cols() % scales.cols() != 0)
    fail(op, "scales must be f32 [N, groups] to match ", rows.name, " ", x.shape(), ", got ", scales);
}

}  // namespace

Cost cost(const QuantizeRowsArgs& args) {
  return {2.0 * double(args.x.numel()), bytes_of({args.x, args.values, args.scales})};
}

void quantize_rows(const QuantizeRowsArgs& args) {
  const char* op = "quantize_rows";
  check_operands(op, {"x", args.x}, args.values, args.scales);
  run_kernel<QuantizeRowsArgs>(
      op, args.x.is_meta(),
      {LITHE_CPU_STREAMS(quantize_rows, refuse), {"ref", Isa::generic, nullptr, quantize_rows_ref}}, args);
}

Cost cost(const DequantizeRowsArgs& args) {
  return {double(args.out.numel()), bytes_of({args.values, args.scales, args.out})};
}

void dequantize_rows(const DequantizeRowsArgs& args) {
  const char* op = "dequantize_rows";
  check_operands(op, {"out", args.out}, args.values, args.scales);
  run_kernel<DequantizeRowsArgs>(
      op, args.out.is_meta(),
      {LITHE_CPU_STREAMS(dequantize_rows, refuse), {"ref", Isa::generic, nullptr, dequantize_rows_ref}}, args);
}

}  // namespace lithe::kernels
