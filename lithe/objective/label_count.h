// How many labels of a batch count.
#pragma once

#include "lithe/objective/objective.h"

namespace lithe {

/// Those that are not negative; on meta all.
int64_t count_labels(const Targets& targets);

}  // namespace lithe
