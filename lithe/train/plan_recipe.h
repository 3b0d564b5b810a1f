// The plan of a recipe whose data need not be there.
#pragma once

#include "lithe/base/json.h"
#include "lithe/recipe/recipe.h"
#include "lithe/train/plan.h"

namespace lithe {

/// Completes the recipe as far as it goes without its data, and plans one training step of it. `fit_budget`, bytes:
/// accumulation and recomputation are chosen in the recipe so that the step fits (fit_memory); 0: they are not. Fails
/// (usage) where the recipe does not say enough.
Plan plan_recipe(Recipe& recipe, int64_t fit_budget, bool estimate_speed);
/// The first half of it: completes the recipe, and says what its step has.
PlanShape complete_to_plan(Recipe& recipe);

/// The most bytes that a sequence's decode state takes, however long it becomes; 0: it grows with every token. Of a
/// recipe that plan_recipe() completed, of a decoder.
int64_t most_state_bytes(const Recipe& recipe);

/// What `lithe plan --json` prints.
Json plan_json(const Plan& plan, const Recipe& recipe);

}  // namespace lithe
