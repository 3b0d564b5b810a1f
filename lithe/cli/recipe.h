// A recipe: all sections of one YAML file.
#pragma once

#include "lithe/data/config.h"
#include "lithe/eval/perplexity.h"
#include "lithe/infer/sampler.h"
#include "lithe/model/config.h"
#include "lithe/train/config.h"

namespace lithe {

struct Recipe {
  ModelConfig model;
  DataConfig data;
  TrainConfig train;
  EvalConfig eval;
  GenerateConfig generate;
  void fields(Fields& f);
};

/// Reads `file`, applies overrides ("train.learning_rate=3e-4"), and checks everything.
Recipe load_recipe(const Path& file, const std::vector<std::string>& overrides);
/// The same from text; `origin` stands in errors.
Recipe read_recipe(std::string_view text, const std::string& origin, const std::vector<std::string>& overrides = {});
/// The recipe with every default written out.
Node resolved(Recipe recipe);
/// The recipe that a run directory was made with.
Recipe recipe_of_run(const Path& run);

}  // namespace lithe
