// The blocks of GGUF's tensors: 32 integers of 8 or 4 bits with a scale (Q8_0, Q4_0), and 256 with scales of scales
// (Q4_K, Q6_K).
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

void read_q4_0(const uint8_t* p, float* y) {
  const float d = half_at(p);
  for (int j = 0; j < 16; ++j) {
    y[j] = float((p[2 + j] & 15) - 8) * d;
    y[j + 16] = float((p[2 + j] >> 4) - 8) * d;
  }
}

void read_q8_0(const uint8_t* p, float* y) {
  const float d = half_at(p);
  for (int j = 0; j < 32; ++j) y[j] = float(int8_t(p[2 + j])) * d;
}

// Scale and minimum j of eight, 6 bits each, packed into 12 bytes.
void scale_and_minimum(int j, const uint8_t* q, uint8_t& scale, uint8_t& minimum) {
  if (j < 4) {
    scale = q[j] & 63;
    minimum = q[j + 4] & 63;
  } else {
    scale = uint8_t((q[j + 4] & 15) | (q[j - 4] >> 6) << 4);
    minimum = uint8_t((q[j + 4] >> 4) | (q[j] >> 6) << 4);
  }
}

void read_q4_k(const uint8_t* p, float* y) {
  const float d = half_at(p), least = half_at(p + 2);
  const uint8_t *scales = p + 4, *q = p + 16;
  for (int pair = 0; pair < 4; ++pair, q += 32, y += 64)
    for (int upper : {0, 1}) {
      uint8_t scale, minimum;
      scale_and_minimum(2 * pair + upper, scales, scale, minimum);
      const float factor = d * float(scale), shift = least * float(minimum);
      for (int l = 0; l < 32; ++l) y[32 * upper + l] = factor * float(upper ? q[l] >> 4 : q[l] & 15) - shift;
    }
}

void read_q6_k(const uint8_t* p, float* y) {
  const uint8_t *low = p, *high = p + 128;
  const auto* scales = reinterpret_cast<const int8_t*>(p + 192);
  const float d = half_at(p + 208);
  for (int part = 0; part < 2; ++part, low += 64, high += 32, scales += 8, y += 128)
    for (int l = 0; l < 32; ++l) {
      const int s = l / 16;
      const int q[4] = {(low[l] & 15) | (high[l] & 3) << 4, (low[l + 32] & 15) | (high[l] >> 2 & 3) << 4,
                        (low[l] >> 4) | (high[l] >> 4 & 3) << 4, (low[l + 32] >> 4) | (high[l] >> 6 & 3) << 4};
      for (int k = 0; k < 4; ++k) y[l + 32 * k] = d * float(scales[s + 2 * k]) * float(q[k] - 32);
    }
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
    case GgmlType::q6_k: return "Q6_K";
    case GgmlType::bf16: return "BF16";
  }
  return "?";
}

int64_t block_numbers(GgmlType type) {
  switch (type) {
    case GgmlType::q4_0:
    case GgmlType::q8_0: return 32;
    case GgmlType::q4_k:
    case GgmlType::q6_k: return 256;
    default: return 1;
  }
}

int64_t block_bytes(GgmlType type) {
  switch (type) {
    case GgmlType::f32: return 4;
    case GgmlType::f16:
    case GgmlType::bf16: return 2;
    case GgmlType::q4_0: return 18;
    case GgmlType::q8_0: return 34;
    case GgmlType::q4_k: return 144;
    case GgmlType::q6_k: return 210;
  }
  return 0;
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
      case GgmlType::q4_0: read_q4_0(p + byte, y); break;
      case GgmlType::q8_0: read_q8_0(p + byte, y); break;
      case GgmlType::q4_k: read_q4_k(p + byte, y); break;
      case GgmlType::q6_k: read_q6_k(p + byte, y); break;
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
