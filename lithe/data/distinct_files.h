// The files that a section of a recipe names, each at most once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "lithe/base/files.h"

namespace lithe {

class DistinctFiles {
 public:
  explicit DistinctFiles(std::string section) : section_(std::move(section)) {}

  /// The files that `patterns` match, in their order; `option` is the key of the section that has them. Fails when
  /// nothing matches, and on a file that was here before, under this option or another.
  std::vector<Path> expand(const std::vector<std::string>& patterns, const std::string& option);

 private:
  std::string section_;
  std::map<Path, std::string> used_by_;
};

}  // namespace lithe
