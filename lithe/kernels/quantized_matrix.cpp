#include "lithe/kernels/quantized_matrix.h"

#include <cmath>

#include "lithe/base/threads.h"

namespace lithe::kernels {
namespace {

constexpr int64_t kPanel = QuantizedMatrix::kPanel, kUnit = QuantizedMatrix::kUnit;
constexpr const char* kPack = "quantized matrix";

void check_parts(const QuantizedMatrix& m, const QuantizedTensors& t) {
  const auto expect = [&](const char* what, const Tensor& got, DType type, const Shape& shape) {
    check(got.defined() && got.dtype() == type && got.shape() == shape, kPack, "'", m.name, "': the ", what,
          " must be ", type, shape, " for ", name_of(m.format), " weights ", m.shape(), ", got ",
          got ? cat(got.dtype(), got.shape()) : "none");
  };
  if (m.format == QuantizedFormat::int8) {
    expect("values", t.values, DType::i8, {m.outputs, m.inputs});
    expect("scales", t.scales, DType::f32, {m.outputs});
  } else {
    expect("values", t.values, DType::u8, {m.outputs, m.groups() * m.group / 2});
    expect("scales", t.scales, DType::bf16, {m.outputs, m.groups()});
  }
  for (int64_t i = 0; i < t.scales.numel(); ++i)
    check(std::isfinite(value_at(t.scales, i)), kPack, "'", m.name, "': scale ", i,
          " is not finite; the file is damaged");
}

void pack_int8(const QuantizedMatrix& m, const QuantizedTensors& t) {
  const auto* from = t.values.data<int8_t>();
  auto* data = m.data.data<uint8_t>();
  parallel_for(m.panels(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p)
      for (int64_t i = 0; i < kPanel; ++i) {
        const int64_t n = p * kPanel + i;
        uint8_t* to = data + p * m.panel_bytes() + i * kUnit;
        for (int64_t k = 0; k < m.units() * kUnit; ++k)
          to[k / kUnit * kPanel * kUnit + k % kUnit] =
              uint8_t((n < m.outputs && k < m.inputs ? from[n * m.inputs + k] : 0) + 128);
      }
  });
  fill_zero(m.scales);
  for (int64_t n = 0; n < m.outputs; ++n) m.scales.data<float>()[n] = t.scales.data<float>()[n];
  for (int64_t i = 0; i < t.values.numel(); ++i)
    check(from[i] != -128, kPack, "'", m.name, "': value ", i, " is -128, outside [-127, 127]; the file is damaged");
}

void pack_int4(const QuantizedMatrix& m, const QuantizedTensors& t) {
  const int64_t row_bytes = m.groups() * m.group / 2;
  const auto* from = t.values.data<uint8_t>();
  const auto* scales = t.scales.data<bf16>();
  auto* data = m.data.data<uint8_t>();
  parallel_for(m.panels(), 1, [&](int64_t begin, int64_t end, int) {
    for (int64_t p = begin; p < end; ++p)
      for (int64_t i = 0; i < kPanel; ++i) {
        const int64_t n = p * kPanel + i;
        const auto nibble = [&](int64_t k) -> unsigned {
          if (n >= m.outputs || k >= m.inputs) return 8;
          return from[n * row_bytes + k / 2] >> (k % 2 ? 4 : 0) & 15;
        };
        for (int64_t g = 0; g < m.groups(); ++g) {
          uint8_t* group = data + p * m.panel_bytes() + g * m.group_bytes();
          for (int64_t pair = 0; pair < m.group / 8; ++pair)
            for (int64_t j = 0; j < kUnit; ++j) {
              const int64_t k = g * m.group + pair * 8 + j;
              group[pair * kPanel * kUnit + i * kUnit + j] = uint8_t(nibble(k) | nibble(k + kUnit) << 4);
            }
          reinterpret_cast<bf16*>(group + kPanel * m.group / 2)[i] =
              n < m.outputs ? scales[n * m.groups() + g] : bf16(0);
        }
      }
  });
}

}  // namespace

const char* name_of(QuantizedFormat format) { return format == QuantizedFormat::int8 ? "int8" : "int4"; }

void pack(QuantizedMatrix& m, const QuantizedTensors& tensors) {
  check(m.outputs >= 1 && m.inputs >= 1, kPack, "'", m.name, "' must have outputs and inputs, got ", m.shape());
  check(m.format == QuantizedFormat::int8 ? m.group == 0 : m.group == 32 || m.group == 64, kPack, "'", m.name,
        "': the group size must be 32 or 64 for int4 weights and 0 for int8, got ", m.group, " for ",
        name_of(m.format));
  // A sum of 127 * 127 a term must fit 32 bits.
  check(m.inputs <= 133'000, kPack, "'", m.name, "' has ", m.inputs, " inputs; at most 133000 can be summed");
  const Device device = tensors.values ? Device::cpu : Device::meta;
  m.data = empty({m.panels() * m.panel_bytes()}, DType::u8, device);
  if (!m.group) m.scales = empty({m.panels() * kPanel}, DType::f32, device);
  if (device == Device::meta) return;
  check_parts(m, tensors);
  if (m.format == QuantizedFormat::int8)
    pack_int8(m, tensors);
  else
    pack_int4(m, tensors);
}

int quantized_value(const QuantizedMatrix& m, int64_t output, int64_t input) {
  const uint8_t* panel = m.data.data<uint8_t>() + output / kPanel * m.panel_bytes();
  const int64_t i = output % kPanel, j = input % kUnit;
  if (!m.group) return panel[(input / kUnit * kPanel + i) * kUnit + j] - 128;
  const int64_t in_group = input % m.group;
  const uint8_t byte = panel[input / m.group * m.group_bytes() + (in_group / 8 * kPanel + i) * kUnit + j];
  return (in_group % 8 < kUnit ? byte & 15 : byte >> 4) - 8;
}

float quantized_scale(const QuantizedMatrix& m, int64_t output, int64_t input) {
  if (!m.group) return m.scales.data<float>()[output];
  const uint8_t* group = m.data.data<uint8_t>() + output / kPanel * m.panel_bytes() + input / m.group * m.group_bytes();
  return reinterpret_cast<const bf16*>(group + kPanel * m.group / 2)[output % kPanel];
}

}  // namespace lithe::kernels
