// How a run stands: what result.json of a run directory says.
#pragma once

#include <array>
#include <optional>
#include <ostream>
#include <string_view>

namespace lithe {

enum class RunStatus { initialised, running, finished, stopped, diverged, failed };

constexpr std::array<const char*, 6> kRunStatuses = {"initialised", "running",  "finished",
                                                     "stopped",     "diverged", "failed"};
constexpr const char* name_of(RunStatus status) { return kRunStatuses.at(size_t(status)); }
inline std::ostream& operator<<(std::ostream& out, RunStatus status) { return out << name_of(status); }

/// None of a name that is no status.
constexpr std::optional<RunStatus> run_status(std::string_view name) {
  for (size_t i = 0; i < kRunStatuses.size(); ++i)
    if (name == kRunStatuses[i]) return RunStatus(i);
  return std::nullopt;
}

}  // namespace lithe
