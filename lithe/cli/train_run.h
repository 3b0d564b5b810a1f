// From a recipe to what the trainer needs.
#pragma once

#include "lithe/cli/recipe.h"
#include "lithe/train/trainer.h"

namespace lithe {

/// All that the recipe says; `out` and what the command line adds are left to the caller.
TrainRun train_run_of(const Recipe& recipe);

}  // namespace lithe
