// IEEE half precision, which files hold and tensors do not.
#pragma once

#include <bit>
#include <cstdint>

namespace lithe {

/// Exact.
inline float float_of_half(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16, exponent = bits >> 10 & 31, mantissa = bits & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float small = float(mantissa) * 0x1p-24f;  // subnormal, or zero
  return sign ? -small : small;
}

/// To nearest even; too large becomes infinity.
inline uint16_t half_of_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value), size = bits & 0x7fffffffu;
  const auto sign = uint16_t(bits >> 16 & 0x8000);
  if (size > 0x7f800000u) return uint16_t(sign | 0x7e00);
  if (size >= 0x477ff000u) return uint16_t(sign | 0x7c00);
  if (size < 0x38800000u)  // below 2^-14: adding 0.5 rounds to multiples of 2^-24
    return uint16_t(sign | (std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000u));
  return uint16_t(sign | ((size - 0x38000000u + 0xfffu + (size >> 13 & 1)) >> 13));
}

}  // namespace lithe
