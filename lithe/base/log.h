// Log and progress go to stderr; results go to stdout and never through here.
#pragma once

#include "lithe/base/error.h"

namespace lithe {

enum class LogLevel { debug, info, warning, error };

void log_line(LogLevel level, const std::string& line);

/// Fails (usage) when LITHE_LOG or LITHE_VERBOSE holds what is none of its words. The first line that is logged would
/// find that too; a program calls this at its start.
void check_log_settings();

/// Lines below this level are dropped. Default info; `LITHE_LOG=debug|info|warning|error` sets it.
void set_log_level(LogLevel level);

/// True when LITHE_VERBOSE contains `topic` (comma separated), for example LITHE_VERBOSE=dispatch.
bool verbose(std::string_view topic);

template <class... Args>
void log_debug(const Args&... message) {
  log_line(LogLevel::debug, cat(message...));
}
template <class... Args>
void log_info(const Args&... message) {
  log_line(LogLevel::info, cat(message...));
}
template <class... Args>
void log_warning(const Args&... message) {
  log_line(LogLevel::warning, cat(message...));
}

}  // namespace lithe
