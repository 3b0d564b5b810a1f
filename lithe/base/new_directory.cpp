#include "lithe/base/new_directory.h"

#include "lithe/base/error.h"

namespace lithe {

NewDirectory::NewDirectory(const Path& path, const std::string& operation) {
  namespace fs = std::filesystem;
  check_usage(!fs::exists(path) || (fs::is_directory(path) && fs::is_empty(path)), operation, "'", path.string(),
              "' exists; give --out a new directory");
  parents_.emplace(fs::absolute(path / "").lexically_normal().parent_path().parent_path());
  temporary_.emplace(path, Temporary::Kind::directory);
}

}  // namespace lithe
