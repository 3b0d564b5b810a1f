// The variants of an experiment as recipes, and what differs between them.
#pragma once

#include <cmath>

#include "lithe/compare/experiment.h"
#include "lithe/recipe/recipe.h"
#include "lithe/train/plan.h"

namespace lithe::compare {

/// A key that differs from the baseline.
struct Change {
  std::string key, baseline, own;  // empty: not there
  bool solved = false;             // a consequence of the budget, not declared by the experiment
};

/// What the budget came to for a variant.
struct Share {
  std::string key;                // solved; empty: nothing was changed
  int64_t from = 0, to = 0;       // its value before and after
  double amount = 0, target = 0;  // of the matched quantity
};

struct Variant {
  std::string name;
  std::string operation = "compare";   // in errors: the command that trains it
  Path file;                           // of its recipe
  std::vector<std::string> overrides;  // key=value, in order; the budget appends to them
  std::vector<std::string> declared;   // keys; all below them may differ
  std::vector<std::string> solved;     // keys that the budget changed
  Recipe recipe;                       // with the overrides
  std::vector<Change> changes;
  Share share;
  Plan plan;  // of the model that a run ends with
  int64_t steps = 0;
  double spared_flops = 0;  // by a run that grows, while it is smaller
  double step_tokens = 0;   // rows of an optimiser step, source and target; on average where batches differ
  /// Learns from translations, and is compared by them, not by a text.
  bool translates() const;
  /// Learns from labelled examples.
  bool labels() const;
  double training_flops() const { return plan.step.flops * double(steps) - spared_flops; }
  int64_t tokens() const { return int64_t(std::llround(step_tokens * double(steps))); }
};

/// Reads every variant. Errors name the variant, and begin with the operation.
std::vector<Variant> make_variants(const Experiment& experiment, const std::string& operation = "compare");

/// Adds overrides and reads the recipe again.
void override_variant(Variant& variant, const std::vector<std::string>& overrides);

/// Fills in each variant's changes against `baseline`, and refuses (usage): objectives that differ, keys that differ
/// undeclared, keys that no declaration makes fair (data, translations, evaluation, seed, batch; limits of training,
/// unless the budget matches nothing), and training that the clock ends.
void check_fairness(std::vector<Variant>& variants, const Experiment& experiment);

/// key -> value of everything that a recipe says, defaults included, lists as one value.
std::vector<std::pair<std::string, std::string>> leaves(const Recipe& recipe);

/// Parameters that start with the same values in two variants: those of equal name and shape.
struct SharedStart {
  int64_t shared = 0, all = 0;  // scalars; all: of the variant
};
SharedStart shared_start(const ModelConfig& baseline, const ModelConfig& variant);

}  // namespace lithe::compare
