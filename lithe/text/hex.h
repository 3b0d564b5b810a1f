// Numbers as text in files.
#pragma once

#include <cstdint>
#include <string>

namespace lithe {

/// 16 hexadecimal digits.
inline std::string hex(uint64_t number) {
  std::string digits(16, '0');
  for (size_t i = 16; i-- > 0; number >>= 4) digits[i] = "0123456789abcdef"[number & 15];
  return digits;
}

}  // namespace lithe
