// The directory that a command writes into.
#pragma once

#include "lithe/base/files.h"

namespace lithe {

/// Makes a directory and its parents. When it goes, those that it made and that are empty go again: a command that is
/// refused leaves nothing behind.
class MadeDirectory {
 public:
  explicit MadeDirectory(const Path& path);
  ~MadeDirectory();
  MadeDirectory(const MadeDirectory&) = delete;
  MadeDirectory& operator=(const MadeDirectory&) = delete;

 private:
  std::vector<Path> made_;  // the innermost first
};

/// A directory that is made and locked (fails when another process holds it). A lock in a directory with nothing else
/// goes, too.
class OutputDirectory {
 public:
  explicit OutputDirectory(const Path& path);
  ~OutputDirectory();
  OutputDirectory(const OutputDirectory&) = delete;
  OutputDirectory& operator=(const OutputDirectory&) = delete;

 private:
  Path path_;
  MadeDirectory made_;
  DirectoryLock lock_;
};

}  // namespace lithe
