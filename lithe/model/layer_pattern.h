// Which layers of a hybrid keep the standard mixer [TH 4.4.2, 4.6, Table 4.11].
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lithe {

/// Names of the patterns: uniform, hybrid (= even), the nine of Table 4.11.
const std::vector<std::string>& layer_pattern_names();

/// For each of `layers` layers, from the first: true where the pattern keeps the standard mixer. top, middle and bottom
/// name the region that is replaced, the others the layers that are kept; 25% keeps every fourth.
std::vector<bool> standard_layers(const std::string& pattern, int64_t layers);

}  // namespace lithe
