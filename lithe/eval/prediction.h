// Lines that a trained model predicts, and its answers as people and programs read them.
#pragma once

#include "lithe/base/json.h"
#include "lithe/eval/task_evaluation.h"

namespace lithe {

/// A line as an example without a label: the words of a sentence between white space (tagging, parsing), a text, or two
/// with a tab between. Fails (usage) on a line without words, and on a span's without a tab.
Example example_without_label(const std::string& line, TaskType type);

/// The name of a label, or its number where there are none; "_" of a word that the model did not read (-1).
std::string label_name(int32_t label, const std::vector<std::string>& names);
/// The answer to example i: {label, probability, probabilities}, {value}, {tags}, {heads, labels}, {labels} or
/// {answer}; heads and labels of words that were not read are null. `names`: of the labels; empty: their numbers.
Json prediction_json(TaskType type, const TaskAnswers& answers, size_t i, const std::vector<std::string>& names);
/// The same as text. `words`: of the example, for tagging and parsing.
std::string prediction_text(TaskType type, const TaskAnswers& answers, size_t i, const std::vector<std::string>& names,
                            const std::vector<std::string>& words);

}  // namespace lithe
