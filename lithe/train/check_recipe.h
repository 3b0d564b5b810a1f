// What a recipe says that its model cannot obey, told when it is read.
#pragma once

#include "lithe/recipe/recipe.h"

namespace lithe {

/// Refuses (usage) what no step of a training with this `model` could do, or no later command of its run: columns that
/// the data do not have, sources that the model cannot read, rules of decoding that it does not know, states that it
/// cannot carry on, and growth of what does not grow. `model`: the recipe's, complete. `lithe plan` and a training both
/// ask.
void check_recipe(const Recipe& recipe, const ModelConfig& model);

}  // namespace lithe
