// Rows of 8-bit integers with a scale per group of columns, and back (spec hpc.ptq, symmetric).
#pragma once

#include "lithe/kernels/kernel.h"

namespace lithe::kernels {

/// values[n,c] = round(x[n,c] / s), halves away from zero, s = scales[n,g] = max|x| / 127 over group g of row n. x f64,
/// f32 or bf16 [N, groups*c], values i8 like it, scales f32 [N, groups]. A group with an infinity or NaN has scale NaN;
/// one whose largest magnitude is below 2^-100 counts as zero.
struct QuantizeRowsArgs {
  Tensor x, values, scales;
};
Cost cost(const QuantizeRowsArgs& args);
void quantize_rows(const QuantizeRowsArgs& args);

/// out[n,c] = scales[n,g] * values[n,c]; out f64, f32 or bf16.
struct DequantizeRowsArgs {
  Tensor values, scales, out;
};
Cost cost(const DequantizeRowsArgs& args);
void dequantize_rows(const DequantizeRowsArgs& args);

}  // namespace lithe::kernels
