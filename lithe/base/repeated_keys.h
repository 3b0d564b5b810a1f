// YAML of other programs, whose readers take keys that are given twice.
#pragma once

#include "lithe/base/node.h"

namespace lithe {

/// As parse_yaml(), but a key that is given twice has the last of its values, as PyYAML reads it, and a value with the
/// tag of a Python function, !function NAME, is the text "!function NAME", which is not quoted: no plain text begins
/// so.
Node parse_repeated_yaml(std::string_view text, const std::string& origin);

}  // namespace lithe
