// `lithe eval` of translations: those of a run, and those in files.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lithe/base/json.h"
#include "lithe/cli/options.h"
#include "lithe/infer/load.h"
#include "lithe/recipe/recipe.h"

namespace lithe {

struct TranslationEvalOptions {
  std::vector<std::string> references;     // files, one line a segment
  std::vector<std::string> sources;        // NAME=FILE of further encoders
  std::string hypotheses, baseline, save;  // files; save: where a run's translations go
  std::optional<std::string> tokenizer;    // sacreBLEU's; 13a where none is given
  bool lowercase = false;
  int64_t samples = 1000;  // of the bootstrap
  std::optional<int64_t> num_beams;
  std::optional<double> length_penalty;
};
void add_translation_options(CommandLine& app, TranslationEvalOptions& o);

/// Translates and scores the run's test part (else its validation part), or files[0] against files[1]; prints and
/// returns the exit code. `more` stands in the JSON, too.
int eval_translation(const TranslationEvalOptions& o, const Recipe& recipe, const LoadedModel& loaded,
                     const std::vector<std::string>& files, bool json, const Json& more);
/// Scores a file of translations, and how sure it is that it differs from a baseline's.
int score_translation_files(const TranslationEvalOptions& o, bool json);

}  // namespace lithe
