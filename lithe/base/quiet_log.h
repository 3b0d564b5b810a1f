// A task inside another one, such as each training of a comparison, is quiet: the outer one logs a line about it.
#pragma once

namespace lithe {

/// While one exists the log has warnings and errors only. LITHE_LOG=debug shows all lines nevertheless.
class QuietLog {
 public:
  QuietLog();
  ~QuietLog();
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;

 private:
  int before_;
};

}  // namespace lithe
