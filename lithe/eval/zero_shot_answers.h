// Answers that a model writes: what is taken of a text, and whether it is the right one.
#pragma once

#include <string>
#include <vector>

#include "lithe/text/pattern.h"

namespace lithe {

/// A step between what the model wrote and what is compared, by its name in the evaluation harness.
struct AnswerStep {
  enum class Kind { take_first, remove_whitespace, lowercase, uppercase, regex } kind = Kind::take_first;
  std::vector<Pattern> pattern = {};   // regex: one, as Python reads it
  int64_t group_select = 0;            // regex: which match is taken; -1: the last
  std::string fallback = "[invalid]";  // regex: the answer without a match
};
struct AnswerFilter {
  std::string name = "none";
  std::vector<AnswerStep> steps = {};
};
/// `answer`, UTF-8, after the steps: of a regex's match its group, of several the first that is not empty, without
/// spaces around. Fails where group_select is no match of the answer.
std::string filtered(const AnswerFilter& filter, std::string answer);

/// Whether an answer is the right one, and what of them does not count.
struct ExactMatch {
  bool ignore_case = false, ignore_punctuation = false, ignore_numbers = false;
  std::vector<Pattern> regexes_to_ignore = {};
  bool operator()(const std::string& answer, const std::string& right) const;
};

/// White space as Python's strings have it.
bool is_python_space(uint32_t code_point);

}  // namespace lithe
