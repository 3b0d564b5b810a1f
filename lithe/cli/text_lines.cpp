#include "lithe/cli/text_lines.h"

#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "lithe/base/error.h"
#include "lithe/base/files.h"
#include "lithe/base/stop.h"
#include "lithe/data/examples_readers.h"
#include "lithe/data/text_file.h"

namespace lithe {
namespace {

constexpr uint64_t kMostInput = uint64_t(1) << 32;

void copy_standard_input(int to) {
  std::string block(size_t(1) << 20, '\0');
  uint64_t total = 0;
  while (true) {
    check_not_stopped("files", "standard input was not read to its end");
    const auto n = read_some(STDIN_FILENO, block);
    if (!n) continue;
    check(*n >= 0, "files", "standard input cannot be read: ", std::strerror(errno));
    if (*n == 0) return;
    total += uint64_t(*n);
    check(total <= kMostInput, "files", "standard input has more than ", kMostInput >> 30,
          " GiB; write it to a file and name that");
    const bool kept = ::write(to, block.data(), size_t(*n)) == *n;
    check(kept, "files", "standard input cannot be kept in memory: ", std::strerror(errno));
  }
}

}  // namespace

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) out.emplace_back(take_line(text));
  return out;
}

std::string readable(const std::string& file) {
  if (file != "-") return file;
  static bool taken = false;
  check_usage(!std::exchange(taken, true), "files", "'-', standard input, can be read once only; name a file");
  const int fd = ::memfd_create("standard input", 0);  // stays open
  check(fd >= 0, "files", "standard input cannot be kept in memory: ", std::strerror(errno));
  copy_standard_input(fd);
  return cat("/proc/self/fd/", fd);
}

std::vector<std::string> readable(std::vector<std::string> files) {
  for (std::string& file : files) file = readable(file);
  return files;
}

std::optional<int64_t> read_some(int fd, std::span<char> to, int patience) {
  pollfd what{fd, POLLIN, 0};
  if (::poll(&what, 1, patience) <= 0) return {};
  const ssize_t n = ::read(fd, to.data(), to.size());
  return n < 0 && errno == EINTR ? std::nullopt : std::optional<int64_t>(n);
}

std::vector<std::string> text_lines(const std::vector<std::string>& files) {
  std::vector<std::string> out;
  for (const std::string& pattern : files.empty() ? std::vector<std::string>{"-"} : files)
    for (const Path& path : glob(readable(pattern))) {
      const std::string text = read_text(path, "files");
      refuse_invalid_utf8(text, pattern == "-" ? "standard input" : path.string(), "files");
      for (std::string& line : lines_of(text)) out.push_back(std::move(line));
    }
  return out;
}

}  // namespace lithe
