#include "lithe/data/distinct_files.h"

#include "lithe/base/error.h"

namespace lithe {

std::vector<Path> DistinctFiles::expand(const std::vector<std::string>& patterns, const std::string& option) {
  std::vector<Path> files;
  for (const auto& pattern : patterns)
    for (const auto& path : glob(pattern)) {
      const auto [entry, fresh] = used_by_.emplace(std::filesystem::weakly_canonical(path), option);
      check_usage(fresh, section_, "'", path.string(), "' is in ", section_, ".", entry->second,
                  entry->second == option ? " twice" : " and in " + section_ + "." + option, "; remove one");
      files.push_back(path);
    }
  return files;
}

}  // namespace lithe
