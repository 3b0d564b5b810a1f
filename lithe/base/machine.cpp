#include "lithe/base/machine.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

#include "lithe/base/error.h"

namespace lithe {

const BuildInfo& build_info() {
  static const BuildInfo info = {
    LITHE_VERSION,
    LITHE_COMMIT,
#if defined(__clang__)
    cat("clang ", __clang_version__),
#else
    cat("gcc ", __VERSION__),
#endif
    LITHE_BUILD_TYPE
  };
  return info;
}

namespace {

// Arm's kernel names no models, but the numbers of who made the processor and which it is; empty elsewhere.
std::string arm_processor() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string maker, number;
  for (std::string line; std::getline(cpuinfo, line);) {
    const std::string value = line.substr(std::min(line.find(':') + 2, line.size()));
    if (maker.empty() && line.rfind("CPU implementer", 0) == 0) maker = value;
    if (number.empty() && line.rfind("CPU part", 0) == 0) number = value;
  }
  if (maker.empty()) return "";
  static constexpr std::pair<const char*, const char*> kArm[] = {
      {"0xd03", "Cortex-A53"},  {"0xd08", "Cortex-A72"},  {"0xd0b", "Cortex-A76"},  {"0xd0c", "Neoverse N1"},
      {"0xd40", "Neoverse V1"}, {"0xd49", "Neoverse N2"}, {"0xd4f", "Neoverse V2"},
  };
  if (maker == "0x41")
    for (const auto& [part, name] : kArm)
      if (number == part) return cat("Arm ", name);
  return cat("Arm processor, implementer ", maker, " part ", number);
}

// The number behind `name` in a file of lines "name number".
std::optional<int64_t> number_in(const std::string& file, const std::string& name) {
  std::ifstream in(file);
  std::string word;
  for (int64_t value = 0; in >> word;) {
    if (word == name && in >> value) return value;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

std::optional<int64_t> number_of(const std::string& file) {
  std::ifstream in(file);
  int64_t value = 0;
  if (in >> value) return value;
  return std::nullopt;  // "max"
}

// Of one control group of either version; none without a limit.
std::optional<int64_t> left_in_group(const std::string& directory, const char* limit_file, const char* used_file,
                                     const char* droppable) {
  const auto limit = number_of(directory + limit_file), used = number_of(directory + used_file);
  if (!limit || !used) return std::nullopt;
  return *limit - *used + number_in(directory + "/memory.stat", droppable).value_or(0);
}

// This process's group, as /proc says it: "0::/a/b", or of version 1 "7:memory:/a/b".
std::string group_path(const std::string& mark) {
  std::ifstream in("/proc/self/cgroup");
  for (std::string line; std::getline(in, line);)
    if (const size_t at = line.find(mark); at != std::string::npos) return line.substr(at + mark.size());
  return "/";
}

}  // namespace

int64_t memory_left() {
  int64_t left = number_in("/proc/meminfo", "MemAvailable:").value_or(0) * 1024;
  const auto take = [&](std::optional<int64_t> of_group) {
    if (of_group && *of_group < left) left = std::max<int64_t>(*of_group, 1);
  };
  // Every group from the process's own to the root bounds it; where the tree is mounted from that group on, the root.
  for (std::string path = group_path("::");; path = path.substr(0, path.rfind('/'))) {
    if (path == "/") path.clear();
    take(left_in_group("/sys/fs/cgroup" + path, "/memory.max", "/memory.current", "inactive_file"));
    if (path.empty()) break;
  }
  for (const std::string& path : {group_path(":memory:"), std::string()})
    take(left_in_group("/sys/fs/cgroup/memory" + path, "/memory.limit_in_bytes", "/memory.usage_in_bytes",
                       "total_inactive_file"));
  return left;
}

Machine machine() {
  Machine m;
  std::ifstream cpuinfo("/proc/cpuinfo");
  for (std::string line; std::getline(cpuinfo, line);)
    if (line.rfind("model name", 0) == 0) {
      m.cpu = line.substr(std::min(line.find(':') + 2, line.size()));
      break;
    }
  if (m.cpu.empty()) m.cpu = arm_processor();
  if (m.cpu.empty()) m.cpu = "unknown";
  m.logical_cpus = int(::sysconf(_SC_NPROCESSORS_ONLN));
  m.memory = int64_t(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGE_SIZE);
  for (const char* file : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    std::ifstream limit(file);
    if (int64_t bytes = 0; limit >> bytes && bytes > 0 && bytes < m.memory) {
      m.memory_limit = bytes;
      break;
    }
  }
  std::ifstream pages("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string text;
  std::getline(pages, text);
  const size_t open = text.find('['), close = text.find(']');
  m.huge_pages = open < close && close != std::string::npos ? text.substr(open + 1, close - open - 1) : "unknown";
  return m;
}

int64_t cache_bytes(int level) {
  std::ifstream file(cat("/sys/devices/system/cpu/cpu0/cache/index", level, "/size"));
  int64_t size = 0;
  char unit = 0;
  file >> size >> unit;
  return !file || size <= 0 ? 0 : unit == 'K' ? size << 10 : unit == 'M' ? size << 20 : 0;
}

int64_t last_cache_bytes() {
  static const int64_t bytes = [] {
    for (const int level : {3, 2})
      if (const int64_t size = cache_bytes(level)) return size;
    return int64_t(32) << 20;
  }();
  return bytes;
}

int64_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return int64_t(usage.ru_maxrss) * 1024;
}

}  // namespace lithe
