// A directory that appears whole, under its name, or not at all.
#pragma once

#include <optional>
#include <string>

#include "lithe/base/output_directory.h"

namespace lithe {

class NewDirectory {
 public:
  /// Fails (usage) when `path` exists and is not empty; `operation` stands in the error.
  NewDirectory(const Path& path, const std::string& operation);
  Path operator/(const std::string& name) const { return path() / name; }
  /// Where its files are written until commit().
  const Path& path() const { return temporary_->name(); }
  void commit() { temporary_->commit(); }

 private:
  std::optional<MadeDirectory> parents_;
  std::optional<Temporary> temporary_;  // goes first
};

}  // namespace lithe
