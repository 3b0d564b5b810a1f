// Matrices of weights packed for inference, so that a product reads them once and in order: as numbers (gemm.h), or as
// integers of 8 bits with a scale per output, of 4 bits with a scale per group of inputs and output, or in the blocks
// of GGUF files (quantized_product.h).
#pragma once

#include <string>

#include "lithe/kernels/gemm/integer_blocks.h"
#include "lithe/tensor/tensor.h"

namespace lithe::kernels {

/// Also the suffix of a parameter's integers in a file.
const char* name_of(PackedFormat format);
inline bool integers(PackedFormat format) { return format >= PackedFormat::int8; }

/// A matrix of integers as files hold it. With n < outputs and k < inputs:
///   int8: w = scales[n] * values[n,k], values i8 [outputs, inputs] in [-127, 127], scales f32 [outputs]
///   int4: w = scales[n, k / group] * (values[n,k] - 8), values u8 [outputs, groups * group / 2], two a byte, even k in
///         the low half, 8 beyond `inputs`; scales bf16 [outputs, groups], groups = ceil(inputs / group)
///   blocks: values u8 [outputs, bytes], the blocks of an output one after another as ggml has them; no scales. Inputs
///         are a multiple of a block's
struct QuantizedTensors {
  Tensor values, scales;
};

/// The same packed. Outputs come in panels of kPanel, those beyond `outputs` 0 or with scale 0.
///   f32:  data[panel][input][output of panel]
///   bf16: data[panel][pair of inputs][output of panel][2], 0 beyond `inputs`
///   int8: data[panel][unit of 4 inputs][output of panel][4] = value + 128; `scales` f32 [panels * kPanel]
///   int4: data[panel][group]: group / 8 times [output][4] bytes, the low halves for one unit, the high ones for the
///         next, then the scales bf16 [output]
///   blocks: data[panel][block], as BlockLayout says; outputs beyond `outputs` have d = least = 0
struct PackedMatrix {
  static constexpr int64_t kPanel = 32, kUnit = 4;

  PackedFormat format = PackedFormat::int8;
  int64_t outputs = 0, inputs = 0;
  int64_t group = 0;    // inputs that share a scale: int4 32 or 64, of blocks 16 or 32; else 0
  bool by_rows = true;  // the parameter is [outputs, inputs], as tables are; else [inputs, outputs]
  std::string name;     // of the parameter, for errors
  Tensor data, scales;

  Shape shape() const { return by_rows ? Shape{outputs, inputs} : Shape{inputs, outputs}; }
  int64_t panels() const { return (outputs + kPanel - 1) / kPanel; }
  int64_t groups() const { return group ? (inputs + group - 1) / group : 1; }
  int64_t unit_inputs() const { return format == PackedFormat::f32 ? 1 : format == PackedFormat::bf16 ? 2 : kUnit; }
  int64_t units() const {  // words of 32 bits an output (int4: of 4 inputs)
    return group ? groups() * group / kUnit : (inputs + unit_inputs() - 1) / unit_inputs();
  }
  int64_t group_bytes() const { return kPanel * group / 2 + kPanel * 2; }  // int4
  /// In a panel; of blocks.
  int64_t block_bytes() const { return BlockLayout(format).bytes(); }
  int64_t panel_bytes() const {
    return in_blocks(format) ? inputs / block_format(format).inputs * block_bytes()
           : group           ? groups() * group_bytes()
                             : units() * kPanel * 4;
  }
  /// Bytes that a product reads of it.
  int64_t bytes() const { return panels() * (panel_bytes() + (format == PackedFormat::int8 ? kPanel * 4 : 0)); }
};

/// Makes data and scales for a matrix, which has everything else; the contents come by pack_rows().
void allocate(PackedMatrix& m, Device device);
/// Packs rows [first, first + rows.rows()) of a matrix of numbers, as its shape() has rows; f32 or bf16, converted.
void pack_rows(const PackedMatrix& m, int64_t first, const Tensor& rows);
/// The numbers that it stands for, as shape() has them: in the type that was packed, those of integers in f32.
Tensor unpacked(const PackedMatrix& m);
/// The same as [outputs, inputs] in f32 or bf16: what the gradient of rows reads.
Tensor numbers_by_outputs(const PackedMatrix& m, DType type);

/// Packs the integers of outputs [first, first + rows): whole panels, or up to the last output. Checks types, shapes
/// and, for int8, that no value is -128.
void pack_rows(const PackedMatrix& m, int64_t first, const QuantizedTensors& rows);
/// Allocates and packs integers; on the meta device (undefined `tensors`) they have no contents.
void pack(PackedMatrix& m, const QuantizedTensors& tensors);

/// The integer at (output, input), its scale, and what is taken off their product: w = scale value - minimum.
int quantized_value(const PackedMatrix& m, int64_t output, int64_t input);
float quantized_scale(const PackedMatrix& m, int64_t output, int64_t input);
float quantized_minimum(const PackedMatrix& m, int64_t output, int64_t input);

}  // namespace lithe::kernels
