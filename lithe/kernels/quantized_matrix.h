// Matrices of integer weights for inference: 8 bits a weight with a scale per output, or 4 bits with a scale per group
// of inputs and output, packed for the products of quantized_product.h and read once, in order.
#pragma once

#include <string>

#include "lithe/tensor/tensor.h"

namespace lithe::kernels {

enum class QuantizedFormat : uint8_t { int8, int4 };
const char* name_of(QuantizedFormat format);

/// A matrix as files hold it. With n < outputs and k < inputs:
///   int8: w = scales[n] * values[n,k], values i8 [outputs, inputs] in [-127, 127], scales f32 [outputs]
///   int4: w = scales[n, k / group] * (values[n,k] - 8), values u8 [outputs, groups * group / 2], two a byte, even k in
///         the low half, 8 beyond `inputs`; scales bf16 [outputs, groups], groups = ceil(inputs / group)
struct QuantizedTensors {
  Tensor values, scales;
};

/// The same packed. Outputs come in panels of kPanel, those beyond `outputs` with scale 0; inputs in units of 4.
///   int8: data[panel][unit][output of panel][4] = value + 128; `scales` f32 [panels * kPanel]
///   int4: data[panel][group]: group / 8 times [output][4] bytes, the low halves for one unit, the high ones for the
///         next, then the scales bf16 [output]
struct QuantizedMatrix {
  static constexpr int64_t kPanel = 32, kUnit = 4;

  QuantizedFormat format = QuantizedFormat::int8;
  int64_t outputs = 0, inputs = 0;
  int64_t group = 0;    // int4: inputs that share a scale, 32 or 64; int8: 0
  bool by_rows = true;  // the parameter is [outputs, inputs], as tables are; else [inputs, outputs]
  std::string name;     // of the parameter, for errors
  Tensor data, scales;

  Shape shape() const { return by_rows ? Shape{outputs, inputs} : Shape{inputs, outputs}; }
  int64_t panels() const { return (outputs + kPanel - 1) / kPanel; }
  int64_t groups() const { return group ? (inputs + group - 1) / group : 1; }
  int64_t units() const { return group ? groups() * group / kUnit : (inputs + kUnit - 1) / kUnit; }
  int64_t group_bytes() const { return kPanel * group / 2 + kPanel * 2; }  // int4
  int64_t panel_bytes() const { return group ? groups() * group_bytes() : units() * kPanel * kUnit; }
  /// Bytes that a product reads of it.
  int64_t bytes() const { return panels() * (panel_bytes() + (group ? 0 : kPanel * 4)); }
};

/// Checks types, shapes and, for int8, that no value is -128; `m` has everything but data and scales, which are made.
/// On the meta device (undefined `tensors`) they have no contents.
void pack(QuantizedMatrix& m, const QuantizedTensors& tensors);

/// The integer at (output, input), and its scale.
int quantized_value(const QuantizedMatrix& m, int64_t output, int64_t input);
float quantized_scale(const QuantizedMatrix& m, int64_t output, int64_t input);

}  // namespace lithe::kernels
