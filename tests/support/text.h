// Texts that a test looks at.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "lithe/base/json.h"

namespace lithe::kit {

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

inline std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// JSON that stands in lines; `where` is named in errors.
inline std::vector<Json> json_lines_of(const std::string& text, const std::string& where = "a line of JSON") {
  std::vector<Json> out;
  for (const std::string& line : lines_of(text)) out.push_back(parse_json(line, where));
  return out;
}

}  // namespace lithe::kit
