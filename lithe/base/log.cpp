#include "lithe/base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

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

spdlog::logger& logger() {
  static auto instance = [] {
    auto made = spdlog::stderr_color_mt("lithe");
    made->set_pattern("%H:%M:%S %^%l%$ %v");
    const char* wanted = std::getenv("LITHE_LOG");
    made->set_level(wanted ? spdlog::level::from_str(wanted) : spdlog::level::info);
    return made;
  }();
  return *instance;
}

}  // namespace

void log_line(LogLevel level, const std::string& line) { logger().log(to_spdlog(level), "{}", line); }

void set_log_level(LogLevel level) { logger().set_level(to_spdlog(level)); }

bool verbose(std::string_view topic) {
  const char* topics = std::getenv("LITHE_VERBOSE");
  if (!topics) return false;
  const std::string padded = "," + std::string(topics) + ",";
  return padded.find("," + std::string(topic) + ",") != std::string::npos;
}

}  // namespace lithe
