// The table of `lithe plan --cost`.
#pragma once

#include "lithe/analyze/model_cost.h"
#include "lithe/base/json.h"

namespace lithe {

/// Part by part, with a second line under a part for which the sources have formulas.
std::string cost_table(const analyze::ModelCost& cost, const analyze::CostOptions& options);
Json cost_json(const analyze::ModelCost& cost, const analyze::CostOptions& options);

}  // namespace lithe
