// Element types. f64 is for the reference path, f32 and bf16 for the fast ones, i8 and u8 for quantised weights.
#pragma once

#include <bit>
#include <cstdint>
#include <ostream>
#include <string_view>

#include "lithe/base/error.h"

namespace lithe {

/// bfloat16: the upper half of a float. Conversion from float rounds to nearest even; NaN stays NaN.
struct bf16 {
  uint16_t bits = 0;
  bf16() = default;
  bf16(float value) {
    uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u)
      bits = uint16_t(u >> 16 | 0x40);
    else
      bits = uint16_t((u + 0x7fff + (u >> 16 & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(uint32_t(bits) << 16); }
};

enum class DType : uint8_t { f64, f32, bf16, i64, i32, u8, i8 };

constexpr int64_t size_of(DType type) {
  switch (type) {
    case DType::f64:
    case DType::i64: return 8;
    case DType::f32:
    case DType::i32: return 4;
    case DType::bf16: return 2;
    case DType::u8:
    case DType::i8: return 1;
  }
  return 0;
}

constexpr const char* name_of(DType type) {
  switch (type) {
    case DType::f64: return "f64";
    case DType::f32: return "f32";
    case DType::bf16: return "bf16";
    case DType::i64: return "i64";
    case DType::i32: return "i32";
    case DType::u8: return "u8";
    case DType::i8: return "i8";
  }
  return "?";
}
inline std::ostream& operator<<(std::ostream& out, DType type) { return out << name_of(type); }

/// The relative rounding error of a floating type: half the distance from 1 to the next number.
constexpr double epsilon_of(DType type) {
  return type == DType::f64 ? 0x1p-53 : type == DType::bf16 ? 0x1p-8 : 0x1p-24;
}

/// The type of weights, statistics and sums beside rows of `type`: f64 for f64, otherwise f32.
constexpr DType wide_of(DType type) { return type == DType::f64 ? DType::f64 : DType::f32; }

/// The type that recipes and options call "f32", "bf16" or "f64"; they check the word.
inline DType dtype_named(std::string_view name) {
  return name == "f64" ? DType::f64 : name == "bf16" ? DType::bf16 : DType::f32;
}

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::f64;
};
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::f32;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::bf16;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::i64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::i32;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::u8;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::i8;
};
template <class T>
constexpr DType dtype_of = DTypeOf<T>::value;

/// Calls f.template operator()<T>() with T = double, float or bf16.
template <class F>
decltype(auto) dispatch_float(DType type, F&& f) {
  switch (type) {
    case DType::f64: return f.template operator()<double>();
    case DType::f32: return f.template operator()<float>();
    case DType::bf16: return f.template operator()<bf16>();
    default: fail("dispatch", "needs a floating type, got ", type);
  }
}

}  // namespace lithe
