#include "lithe/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>

#include "lithe/base/quiet_log.h"

namespace lithe {
namespace {

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
  }
  return spdlog::level::info;
}

LogLevel level_of_environment() {
  const char* wanted = std::getenv("LITHE_LOG");
  if (!wanted) return LogLevel::info;
  const std::string_view names[] = {"debug", "info", "warning", "error"};
  const auto at = std::find(std::begin(names), std::end(names), wanted);
  check_usage(at != std::end(names), "LITHE_LOG", "must be debug, info, warning or error, got '", wanted, "'");
  return LogLevel(at - std::begin(names));
}

spdlog::logger& logger() {
  static auto instance = [] {
    const LogLevel level = level_of_environment();
    auto made = spdlog::stderr_color_mt("lithe");
    made->set_pattern("%H:%M:%S %^%l%$ %v");
    made->set_level(to_spdlog(level));
    return made;
  }();
  return *instance;
}

}  // namespace

void log_line(LogLevel level, const std::string& line) { logger().log(to_spdlog(level), "{}", line); }

void set_log_level(LogLevel level) { logger().set_level(to_spdlog(level)); }

QuietLog::QuietLog() : before_(logger().level()) {
  if (before_ == spdlog::level::info) logger().set_level(spdlog::level::warn);
}

QuietLog::~QuietLog() { logger().set_level(spdlog::level::level_enum(before_)); }

bool verbose(std::string_view topic) {
  const char* given = std::getenv("LITHE_VERBOSE");
  bool found = false;
  for (std::string_view rest = given ? given : ""; !rest.empty();) {
    const std::string_view word = rest.substr(0, rest.find(','));
    check_usage(word == "dispatch" || word == "fusion", "LITHE_VERBOSE", "must be dispatch or fusion, got '", word,
                "'");
    found = found || word == topic;
    rest.remove_prefix(std::min(rest.size(), word.size() + 1));
  }
  return found;
}

void check_log_settings() {
  level_of_environment();
  verbose("");
}

}  // namespace lithe
