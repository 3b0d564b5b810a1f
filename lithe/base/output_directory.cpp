#include "lithe/base/output_directory.h"

#include <algorithm>

namespace lithe {

namespace fs = std::filesystem;

MadeDirectory::MadeDirectory(const Path& path) {
  std::error_code ignored;
  for (Path at = fs::absolute(path).lexically_normal(); !fs::exists(at, ignored); at = at.parent_path())
    made_.push_back(at);
  make_directory(path);
}

MadeDirectory::~MadeDirectory() {
  std::error_code not_empty;
  for (const Path& path : made_) fs::remove(path, not_empty);
}

OutputDirectory::OutputDirectory(const Path& path) : path_(path), made_(path), lock_(path) {}

OutputDirectory::~OutputDirectory() {
  std::error_code ignored;
  const fs::directory_iterator entries(path_, ignored);
  if (std::all_of(begin(entries), end(entries), [](const auto& entry) { return entry.path().filename() == ".lock"; }))
    fs::remove(path_ / ".lock", ignored);  // still held: DirectoryLock knows a lock that was removed
}

}  // namespace lithe
