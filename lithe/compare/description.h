// What the directory of a comparison or a search says that it holds.
#pragma once

#include <optional>

#include "lithe/base/files.h"

namespace lithe::compare {

/// Until keep(), a description that was written anew becomes again what it was: a refused comparison leaves the
/// directory as it found it. Where there was none before, one stays if runs stand beside it.
class Description {
 public:
  explicit Description(const Path& file) : file_(file) {
    if (std::filesystem::exists(file)) before_ = read_file(file);
  }
  ~Description() {
    if (kept_) return;
    std::error_code ignored;
    try {
      if (before_ && read_file(file_) != *before_) write_file(file_, *before_);
    } catch (const std::exception&) {  // the error that is on its way says more
    }
    if (!before_ && !std::filesystem::exists(file_.parent_path() / "runs")) std::filesystem::remove(file_, ignored);
  }
  Description(const Description&) = delete;
  Description& operator=(const Description&) = delete;
  void keep() { kept_ = true; }

 private:
  Path file_;
  std::optional<std::string> before_;
  bool kept_ = false;
};

}  // namespace lithe::compare
