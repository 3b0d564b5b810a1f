// Errors that say the operation, the rule, the values and the remedy.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace lithe {

/// Exit codes of the command line (docs/design.md); a run stopped by signal n exits with 128+n.
enum class ExitCode { done = 0, failed = 1, usage = 2, diverged = 3, memory = 4 };

/// The one exception of lithe. `what()` is "operation: rule, values, remedy" on one line.
class Error : public std::runtime_error {
 public:
  Error(std::string_view operation, std::string_view message, ExitCode code = ExitCode::failed)
      : std::runtime_error(std::string(operation) + ": " + std::string(message)), operation_(operation), code_(code) {}
  const std::string& operation() const { return operation_; }
  ExitCode code() const { return code_; }

 private:
  std::string operation_;
  ExitCode code_;
};

/// Concatenates anything that prints to a stream.
template <class... Args>
std::string cat(const Args&... args) {
  std::ostringstream out;
  (out << ... << args);
  return out.str();
}

template <class... Args>
[[noreturn]] void fail(std::string_view operation, const Args&... message) {
  throw Error(operation, cat(message...));
}

/// Wrong usage or a wrong recipe: the command line exits with 2.
template <class... Args>
[[noreturn]] void fail_usage(std::string_view operation, const Args&... message) {
  throw Error(operation, cat(message...), ExitCode::usage);
}

template <class... Args>
void check(bool rule, std::string_view operation, const Args&... message) {
  if (!rule) [[unlikely]]
    fail(operation, message...);
}

template <class... Args>
void check_usage(bool rule, std::string_view operation, const Args&... message) {
  if (!rule) [[unlikely]]
    fail_usage(operation, message...);
}

}  // namespace lithe
