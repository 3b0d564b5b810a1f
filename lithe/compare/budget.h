// One budget for all variants: equal tokens, parameters, FLOPs or time, by solving for a width or a number of steps.
#pragma once

#include <functional>

#include "lithe/compare/translation.h"

namespace lithe::compare {

/// What the text means for a plan.
struct TextSizes {
  int64_t vocabulary = 0;
  int64_t batches_per_epoch = 0;               // micro-batches of training
  int64_t evaluation_rows = 0;                 // of the largest evaluation batch
  const Translations* translations = nullptr;  // in place of a text
  const TrainingData* examples = nullptr;      // of a task, in place of a text
};

/// A recipe's model with what the text decides filled in.
ModelConfig complete_model(const Recipe& recipe, const TextSizes& text);

/// Fills in plan and steps.
void plan_variant(Variant& variant, const TextSizes& text);

/// Changes the variants until each one's amount of the matched quantity is within the tolerance of the target, and
/// fills in their shares, plans and steps. `step_seconds(variants)` measures one optimiser step of each; it is called
/// for match time only. Fails (usage) naming the nearest values where no width matches.
void match_budget(std::vector<Variant>& variants, const Experiment& experiment, const TextSizes& text,
                  const std::function<std::vector<double>(const std::vector<Variant>&)>& step_seconds);

}  // namespace lithe::compare
