// A directory that appears whole, under its name, or not at all.
#pragma once

#include <optional>
#include <string>

#include "lithe/base/output_directory.h"

namespace lithe {

class NewDirectory {
 public:
  /// Fails (usage) when `path` exists and is not empty; `operation` stands in the error. With `overwrite` a directory
  /// that holds what `lithe OPERATION` wrote there, and nothing else, may be replaced.
  NewDirectory(const Path& path, const std::string& operation, bool overwrite = false);
  Path operator/(const std::string& name) const { return path() / name; }
  /// Where its files are written until commit().
  const Path& path() const { return temporary_->name(); }
  /// Notes its files in kNotes, for a later overwrite, and gives it its name. What stood there goes then.
  void commit();

  /// The check of the constructor alone.
  static void check_place(const Path& path, const std::string& operation, bool overwrite);

  static constexpr const char* kNotes = ".lithe-output";

 private:
  std::string operation_;
  bool overwrite_;
  std::optional<MadeDirectory> parents_;
  std::optional<Temporary> temporary_;  // goes first
};

}  // namespace lithe
