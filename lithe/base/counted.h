#pragma once

#include <cstdint>
#include <string>

namespace lithe {

/// "1 thread", "2 threads".
inline std::string counted(int64_t n, const std::string& thing) {
  return std::to_string(n) + " " + thing + (n == 1 ? "" : "s");
}

}  // namespace lithe
