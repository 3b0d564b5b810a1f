// Documents of tasks, and what the templates of a task make of them.
#pragma once

#include <map>

#include "lithe/base/json.h"
#include "lithe/eval/template.h"
#include "lithe/eval/zero_shot.h"

namespace lithe {

/// All documents of the files, objects that have the fields of all; null where a document has none.
std::vector<Json> zero_shot_documents(const std::vector<std::string>& files);

/// The texts of a task's documents, as the harness makes them.
class TaskTexts {
 public:
  /// `documents`: those that are scored, of which the first says what the others are like.
  TaskTexts(const ZeroShotTask& task, const std::vector<Json>& documents);

  /// doc_to_text gives the number of a choice: the choices are texts before one target.
  bool multiple_inputs() const { return multiple_inputs_; }
  /// doc_to_target gives a list of right answers.
  bool multiple_targets() const { return multiple_targets_; }
  /// What stands before the answers of each document, with its examples; more than one of multiple inputs.
  std::vector<std::vector<std::string>> contexts() const;
  std::vector<std::string> choices(const Json& document) const;
  /// A text, or the number of a choice, or a list of them.
  Json target(const Json& document) const { return target_of(document, task_); }
  /// The numbers of the right choices, none where no choice is.
  std::vector<int64_t> right_choices(const Json& document, const std::vector<std::string>& choices) const;
  /// The texts that are right, of a task whose model writes its answers.
  std::vector<std::string> right_answers(const Json& document) const;

 private:
  const ZeroShotTask& task_;
  const std::vector<Json>& documents_;
  bool multiple_inputs_ = false, multiple_targets_ = false;
  mutable std::map<std::string, Template> templates_;

  bool is_field(const std::string& text) const;
  std::string rendered(const std::string& text, const Json& document) const;
  Json resolved(const std::string& text, const Json& document) const;
  Json text_of(const Json& document, const DocumentTexts& how) const;
  Json target_of(const Json& document, const DocumentTexts& how) const;
  std::vector<std::string> choices_of(const Json& document, const DocumentTexts& how) const;
  std::string example(const Json& document) const;
  std::string question(const std::string& text, const std::string& prefix, const std::string& delimiter) const;
};

}  // namespace lithe
