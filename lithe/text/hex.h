// Numbers as text in files.
#pragma once

#include <cstdint>
#include <string>

namespace lithe {

/// The last `count` hexadecimal digits, at most 16.
inline std::string hex(uint64_t number, size_t count = 16) {
  std::string digits(count, '0');
  for (size_t i = count; i-- > 0; number >>= 4) digits[i] = "0123456789abcdef"[number & 15];
  return digits;
}

}  // namespace lithe
