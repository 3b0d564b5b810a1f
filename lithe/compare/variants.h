// The variants of an experiment as complete settings, and what differs between them.
#pragma once

#include <cmath>
#include <functional>
#include <optional>

#include "lithe/compare/experiment.h"
#include "lithe/data/config.h"
#include "lithe/eval/perplexity.h"
#include "lithe/infer/translate.h"
#include "lithe/train/config.h"
#include "lithe/train/plan.h"
#include "lithe/train/training_data.h"

namespace lithe::compare {

/// What a recipe says, read by who knows recipes.
struct Setting {
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  EvalConfig eval;
  Node recipe;  // all of it, every default written out
  Lessons lessons;
  TranslateConfig translate;
  /// Of objective seq2seq: compared by translations, not by a text.
  bool translates() const { return train.objective == "seq2seq"; }
};
using ReadSetting = std::function<Setting(const Path& recipe, const std::vector<std::string>& overrides)>;

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
  Path recipe;
  std::vector<std::string> overrides;  // key=value, in order; the budget appends to them
  std::vector<std::string> declared;   // keys; all below them may differ
  std::vector<std::string> solved;     // keys that the budget changed
  Setting setting;
  std::vector<Change> changes;
  Share share;
  Plan plan;
  int64_t steps = 0;
  double step_tokens = 0;  // rows of an optimiser step, source and target; on average where batches differ
  int64_t tokens() const { return int64_t(std::llround(step_tokens * double(steps))); }
};

/// Reads every variant. Errors name the variant.
std::vector<Variant> make_variants(const Experiment& experiment, const ReadSetting& read);

/// Adds overrides and reads the setting again.
void override_variant(Variant& variant, const std::vector<std::string>& overrides, const ReadSetting& read);

/// Fills in each variant's changes against `baseline`, and refuses (usage): objectives that differ, keys that differ
/// undeclared, keys that no declaration makes fair (data, translations, evaluation, seed, batch; limits of training,
/// unless the budget matches nothing), and training that the clock ends.
void check_fairness(std::vector<Variant>& variants, const Experiment& experiment);

/// key -> value of every leaf of a tree, lists as one value.
std::vector<std::pair<std::string, std::string>> leaves(const Node& tree);

/// Parameters that start with the same values in two variants: those of equal name and shape.
struct SharedStart {
  int64_t shared = 0, all = 0;  // scalars; all: of the variant
};
SharedStart shared_start(const ModelConfig& baseline, const ModelConfig& variant);

}  // namespace lithe::compare
