#include "lithe/eval/measured_part.h"

#include "lithe/base/error.h"
#include "lithe/data/config.h"
#include "lithe/data/corpus.h"
#include "lithe/eval/task_report.h"
#include "lithe/trees/treebank.h"

namespace lithe {

TokenStore measured_text(const Recipe& recipe, const std::shared_ptr<const Tokenizer>& tokenizer,
                         const std::vector<std::string>& files) {
  if (!files.empty()) return tokenize_in_memory(Corpus(files, corpus_options(recipe.data)), *tokenizer);
  const Dataset data = load_dataset(recipe.data, tokenizer);
  check_usage(data.validation.has_value(), "eval", "the run has no held-out text; name the text to measure");
  return *data.validation;
}

MeasuredExamples measured_examples(TaskConfig config, const std::vector<std::string>& files,
                                   const std::vector<std::string>& labels) {
  MeasuredExamples out;
  if (!files.empty()) {
    out.train = training_examples(config, labels);
    config.train.clear();
    config.validation.clear();
    config.validation_fraction = 0;
    config.folds = 0, config.fold = 1;
    config.test = files;
  }
  TaskData data = load_task(config, labels);
  std::vector<Example>& examples = data.test.empty() ? data.validation : data.test;
  check_usage(!examples.empty(), "eval", "the run has no test and no validation examples; name the files to measure");
  out.part = !files.empty() ? "files" : data.test.empty() ? "validation" : "test";
  if (files.empty()) out.train = std::move(data.train);
  out.examples = std::move(examples);
  return out;
}

MeasuredPairs measured_pairs(const Recipe& recipe, const std::vector<std::string>& files,
                             const std::map<std::string, std::string>& further) {
  check_usage(files.empty() || files.size() == 2, "eval",
              "a translation model is measured on two files, the source and its translation, or on none for the run's "
              "own test part; got ",
              files.size());
  TranslationConfig config = recipe.translation;
  config.train = {};
  if (!files.empty()) {
    config.validation = config.test = {};
    (is_treebank(files[0]) ? config.test.source_trees : config.test.source) = {files[0]};
    config.test.target = {files[1]};
    for (const auto& [name, file] : further) {
      config.test.sources.set(name, Node::scalar(file));
      config.sources.set(name, Node::map());
    }
    for (const auto& [name, source] : std::vector(config.sources.entries()))  // that no encoder reads
      if (!recipe.model.encoders.find(name)) config.sources.erase(name);
  }
  check_usage(!config.test.empty() || !config.validation.empty(), "eval",
              "the run has no test and no validation texts; name a source file and its translation");
  TranslationData data = load_translation(config);
  const bool test = !data.test.empty();
  return {std::move(test ? data.test : data.validation), !files.empty() ? "files" : test ? "test" : "validation"};
}

}  // namespace lithe
