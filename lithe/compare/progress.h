// How far a comparison or a search has come.
#pragma once

#include <ostream>

namespace lithe::compare {

enum class Progress { complete, stopped };

constexpr const char* name_of(Progress progress) { return progress == Progress::complete ? "complete" : "stopped"; }
inline std::ostream& operator<<(std::ostream& out, Progress progress) { return out << name_of(progress); }

}  // namespace lithe::compare
