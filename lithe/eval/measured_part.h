// What is measured of a run: the files that are given, else its test part, else its validation part.
#pragma once

#include <map>

#include "lithe/data/task.h"
#include "lithe/data/token_store.h"
#include "lithe/data/translation.h"
#include "lithe/recipe/recipe.h"

namespace lithe {

/// Of a model of text. Fails (usage) where no files are given and the run has no held-out text.
TokenStore measured_text(const Recipe& recipe, const std::shared_ptr<const Tokenizer>& tokenizer,
                         const std::vector<std::string>& files);

struct MeasuredExamples {
  std::vector<Example> examples, train;  // train: what baselines learn from
  std::string part;                      // "files", "test" or "validation"
};
/// Of a task with the classes `labels`. Fails (usage) where there are none.
MeasuredExamples measured_examples(TaskConfig config, const std::vector<std::string>& files,
                                   const std::vector<std::string>& labels);

struct MeasuredPairs {
  std::vector<TextPair> pairs;
  std::string part;
};
/// Of a translator: `files` are none, or the source (text or a treebank) and its translation; `further` those of other
/// encoders, by name, beside files. Fails (usage) on others, and where there are no texts.
MeasuredPairs measured_pairs(const Recipe& recipe, const std::vector<std::string>& files,
                             const std::map<std::string, std::string>& further = {});

}  // namespace lithe
