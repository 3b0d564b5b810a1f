#include "lithe/base/progress.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "lithe/base/log.h"

namespace lithe {

bool draws_on_terminal() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) && !std::getenv("CI") && term && std::string_view(term) != "dumb";
}

bool LogPace::due(int64_t done, int64_t all) {
  const auto part = [&](int64_t n) { return int64_t(double(n) / double(all) * double(lines_)); };
  const bool yes = all > 0 ? done >= all || part(done) > part(last_) : 2 * done >= 3 * last_;
  if (yes) last_ = done;
  return yes;
}

ProgressLine::ProgressLine(std::string doing, std::string unit)
    : doing_(std::move(doing)),
      unit_(std::move(unit)),
      terminal_(draws_on_terminal()),
      last_(std::chrono::steady_clock::now()) {}

void ProgressLine::operator()(int64_t done, int64_t all) {
  const auto now = std::chrono::steady_clock::now();
  const std::string line = cat(doing_, " ", done, "/", all, " ", unit_);
  if (terminal_) {
    if (drawn_ && done < all && now - last_ < std::chrono::milliseconds(50)) return;
    std::fputs(("\r\033[K" + line).c_str(), stderr);
    std::fflush(stderr);
    drawn_ = true;
    last_ = now;
  } else if (now - last_ >= std::chrono::seconds(2) && pace_.due(done, all)) {
    log_info(line);
    last_ = now;
  }
}

void ProgressLine::end() {
  if (drawn_) std::fputs("\r\033[K", stderr);
  drawn_ = false;
}

}  // namespace lithe
