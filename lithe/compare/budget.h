// One budget for all variants: equal tokens, parameters, FLOPs or time, by solving for a width or a number of steps.
#pragma once

#include <functional>

#include "lithe/compare/material.h"

namespace lithe::compare {

/// Fills in plan and steps.
void plan_variant(Variant& variant, const Material& material);

/// Changes the variants until each one's amount of the matched quantity is within the tolerance of the target, and
/// fills in their shares, plans and steps. `step_seconds(variants)` measures one optimiser step of each; it is called
/// for match time only. Fails (usage) naming the nearest values where no width matches.
void match_budget(std::vector<Variant>& variants, const Experiment& experiment, const Material& material,
                  const std::function<std::vector<double>(const std::vector<Variant>&)>& step_seconds);

}  // namespace lithe::compare
