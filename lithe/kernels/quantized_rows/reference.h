// The specification of quantized_rows.h: scalar, serial.
#pragma once

#include "lithe/kernels/quantized_product/reference.h"
#include "lithe/kernels/quantized_rows/quantized_rows.h"

namespace lithe::kernels::ref {

template <class T>
void quantize_rows(const QuantizeRowsArgs& args) {
  const int64_t groups = args.scales.cols(), size = args.x.cols() / groups;
  for (int64_t i = 0; i < args.scales.numel(); ++i)
    args.scales.data<float>()[i] =
        quantize_row(args.x.data<T>() + i * size, size, args.values.data<int8_t>() + i * size);
}

template <class T>
void dequantize_rows(const DequantizeRowsArgs& args) {
  const int64_t groups = args.scales.cols(), size = args.out.cols() / groups;
  for (int64_t i = 0; i < args.out.numel(); ++i)
    args.out.data<T>()[i] = T(args.scales.data<float>()[i / size] * float(args.values.data<int8_t>()[i]));
}

}  // namespace lithe::kernels::ref
