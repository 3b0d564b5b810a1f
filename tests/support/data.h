// The public data sets that some tests read when this machine has them (docs/data.md).
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace lithe::kit {

/// `name` below $LITHE_DATA (default data/), whether it is there or not.
inline std::filesystem::path data_path(const std::string& name) {
  const char* set = std::getenv("LITHE_DATA");
  return std::filesystem::path(set && *set ? set : "data") / name;
}

/// The same, or empty when it is not there: the test is then skipped.
inline std::filesystem::path data_if_any(const std::string& name) {
  const std::filesystem::path path = data_path(name);
  return std::filesystem::exists(path) ? path : std::filesystem::path();
}

}  // namespace lithe::kit
