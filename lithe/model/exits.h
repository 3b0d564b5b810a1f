// Rules of early exits for a model.
#pragma once

#include <optional>

#include "lithe/model/model.h"
#include "lithe/nn/exits.h"

namespace lithe {

/// The rule that `text` says (exit_rule_named); none where it is empty. Fails (usage) where the model has no exits.
std::optional<ExitRun> exit_run_of(const Model& model, const std::string& text);

}  // namespace lithe
