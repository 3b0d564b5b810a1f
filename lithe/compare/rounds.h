// Rounds of timing that are kept, so that a comparison which was stopped goes on with them.
#pragma once

#include "lithe/compare/result.h"

namespace lithe::compare {

/// Fills in cells, costs and searches of `speed` from `bench`, and rounds until there are `repeats`: those that `file`
/// holds under `key`, then new ones, each kept there. False when asked to stop before. `contenders`: with the control.
bool take_rounds(SpeedBench& bench, size_t contenders, int64_t repeats, const std::string& key, const Path& file,
                 Speed& speed);

}  // namespace lithe::compare
