// The file that `lithe compare` reads: which variants of a recipe, under which budget, and what to measure.
#pragma once

#include "lithe/base/fields.h"

namespace lithe::compare {

struct BudgetConfig {
  std::string match = "tokens", solve;
  int64_t multiple_of = 8;
  double tolerance = 0.01, amount = 0;
  void fields(Fields& f);
};

struct MeasureConfig {
  std::vector<int64_t> prompt_lengths{64, 256, 1024}, batch_sizes{1, 8};
  int64_t decode_tokens = 16, sentences = 100, train_steps = 3, repeats = 5;
  std::string precision = "f32";
  void fields(Fields& f);
};

struct VariantConfig {
  std::string name;
  std::string recipe;                                  // its own, else the experiment's
  std::vector<std::pair<std::string, Node>> override;  // dotted path, value
};

struct Experiment {
  std::string name;  // of the file
  Path file;
  std::string recipe;                             // relative to the file
  std::vector<std::pair<std::string, Node>> set;  // for all variants
  std::string baseline, peop_baseline;
  std::vector<VariantConfig> variants;  // in the order of the file
  std::vector<std::string> declare;     // paths that variants with a recipe of their own may differ in
  std::vector<int64_t> seeds{1};
  std::string score;  // see score_name(); empty in the file: what the objective of the recipes has
  double confidence = 0.95;
  BudgetConfig budget;
  MeasureConfig measure;
  std::string text;  // the file as it was read

  /// The recipe of a variant, found from the experiment's place.
  Path recipe_of(const VariantConfig& variant) const;
};

/// Strict: unknown keys fail with the nearest valid one, and names that do not exist are refused.
Experiment read_experiment(const Path& file);
Experiment parse_experiment(std::string_view text, const Path& file);

/// The keys of an experiment file, for the documentation.
std::vector<FieldDoc> describe_experiment();

}  // namespace lithe::compare
