// What is implemented, by spec id. Gathered at build time from the lines
//   // spec: <id> | <kind> | <one line> | <source>
// that stand where a thing is implemented; parts announce themselves in the Registry instead.
#pragma once

#include <string>
#include <vector>

namespace lithe {

struct Capability {
  std::string id;       // "train.adam"
  std::string kind;     // "optimiser", "schedule", "search", "metric", "cost", ...
  std::string summary;  // one line
  std::string source;   // "TB 6.1.7"
  std::string file;     // where it is implemented
};

const std::vector<Capability>& capabilities();

/// The ids that a line "// oracle: <id>" in tests/ names; an id counts only when it is here.
const std::vector<std::string>& ids_with_oracles();

}  // namespace lithe
