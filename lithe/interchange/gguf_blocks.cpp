// The numbers of GGUF's tensors.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "lithe/base/error.h"
#include "lithe/interchange/gguf_file.h"
#include "lithe/tensor/half.h"

namespace lithe {
namespace {

float half_at(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return float_of_half(bits);
}
void put_half(uint8_t* p, float value) {
  const uint16_t bits = half_of_float(value);
  std::memcpy(p, &bits, sizeof bits);
}

void write_q8_0(const float* x, uint8_t* p) {
  float most = 0;
  for (int j = 0; j < 32; ++j) most = std::max(most, std::abs(x[j]));
  const float d = most / 127, inverse = d ? 1 / d : 0;
  put_half(p, d);
  for (int j = 0; j < 32; ++j) p[2 + j] = uint8_t(int8_t(std::round(x[j] * inverse)));
}

// The number of the largest size becomes -8 times the scale.
void write_q4_0(const float* x, uint8_t* p) {
  float most = 0, size = 0;
  for (int j = 0; j < 32; ++j)
    if (std::abs(x[j]) > size) size = std::abs(x[j]), most = x[j];
  const float d = most / -8, inverse = d ? 1 / d : 0;
  put_half(p, d);
  const auto rounded = [&](float v) { return uint8_t(std::min(15, int(v * inverse + 8.5f))); };
  for (int j = 0; j < 16; ++j) p[2 + j] = uint8_t(rounded(x[j]) | rounded(x[j + 16]) << 4);
}

template <class F>
void each_block(GgmlType type, int64_t count, F f) {
  const int64_t numbers = block_numbers(type), bytes = block_bytes(type);
  for (int64_t i = 0; i < count / numbers; ++i) f(i * numbers, i * bytes);
}

}  // namespace

const char* name_of(GgmlType type) {
  switch (type) {
    case GgmlType::f32: return "F32";
    case GgmlType::f16: return "F16";
    case GgmlType::q4_0: return "Q4_0";
    case GgmlType::q8_0: return "Q8_0";
    case GgmlType::q4_k: return "Q4_K";
    case GgmlType::q5_k: return "Q5_K";
    case GgmlType::q6_k: return "Q6_K";
    case GgmlType::iq4_nl: return "IQ4_NL";
    case GgmlType::bf16: return "BF16";
  }
  return "?";
}

kernels::PackedFormat packed_format(GgmlType type) {
  using kernels::PackedFormat;
  switch (type) {
    case GgmlType::q4_0: return PackedFormat::q4_0;
    case GgmlType::q8_0: return PackedFormat::q8_0;
    case GgmlType::iq4_nl: return PackedFormat::iq4_nl;
    case GgmlType::q4_k: return PackedFormat::q4_k;
    case GgmlType::q5_k: return PackedFormat::q5_k;
    case GgmlType::q6_k: return PackedFormat::q6_k;
    default: return PackedFormat::f32;
  }
}

int64_t block_numbers(GgmlType type) {
  const kernels::PackedFormat format = packed_format(type);
  return in_blocks(format) ? block_format(format).inputs : 1;
}

int64_t block_bytes(GgmlType type) {
  switch (type) {
    case GgmlType::f32: return 4;
    case GgmlType::f16:
    case GgmlType::bf16: return 2;
    default: return block_format(packed_format(type)).bytes;
  }
}

void read_blocks(GgmlType type, const void* from, int64_t count, float* to) {
  const auto* p = static_cast<const uint8_t*>(from);
  each_block(type, count, [&](int64_t number, int64_t byte) {
    float* y = to + number;
    switch (type) {
      case GgmlType::f32: std::memcpy(y, p + byte, 4); break;
      case GgmlType::f16: *y = half_at(p + byte); break;
      case GgmlType::bf16: {
        bf16 b;
        std::memcpy(&b.bits, p + byte, 2);
        *y = b;
        break;
      }
      default: {
        kernels::IntegerBlock block;
        read_block(packed_format(type), p + byte, block);
        numbers_of_block(packed_format(type), block, y);
      }
    }
  });
}

void write_blocks(GgmlType type, const float* from, int64_t count, void* to) {
  auto* p = static_cast<uint8_t*>(to);
  check(type == GgmlType::f32 || type == GgmlType::bf16 || type == GgmlType::q8_0 || type == GgmlType::q4_0, "gguf",
        "type ", name_of(type), " is read only");
  each_block(type, count, [&](int64_t number, int64_t byte) {
    const float* x = from + number;
    if (type == GgmlType::f32) {
      std::memcpy(p + byte, x, 4);
    } else if (type == GgmlType::bf16) {
      const bf16 b(*x);
      std::memcpy(p + byte, &b.bits, 2);
    } else if (type == GgmlType::q8_0) {
      write_q8_0(x, p + byte);
    } else {
      write_q4_0(x, p + byte);
    }
  });
}

}  // namespace lithe
