// Answers that a model writes: what is taken of a text, and whether it is the right one.
#pragma once

#include <string>
#include <vector>

#include "lithe/base/json.h"
#include "lithe/text/pattern.h"
#include "lithe/text/utf8.h"

namespace lithe {

/// A step between what the model wrote and what is compared, by its name in the evaluation harness.
struct AnswerStep {
  enum class Kind {
    take_first,
    take_first_k,
    majority_vote,
    remove_whitespace,
    lowercase,
    uppercase,
    regex,
    multi_choice_regex,
    map
  } kind = Kind::take_first;
  std::vector<Pattern> pattern = {};                  // of the regexes: one, as Python reads it
  int64_t group_select = 0;                           // of the regexes: which match is taken; -1: the last
  std::string fallback = "[invalid]";                 // of the regexes: the answer without a match
  int64_t k = 1;                                      // take_first_k
  Json mapping = Json::object(), default_value = {};  // map
  // multi_choice_regex: what does not count where the text of a choice is looked for
  bool ignore_case = false, ignore_punctuation = false;
  std::vector<Pattern> regexes_to_ignore = {};
};
struct AnswerFilter {
  std::string name = "none";
  std::vector<AnswerStep> steps = {};
};
/// What the steps make of a document's answers, UTF-8: a text or, after map, another value; or a list of them where no
/// step takes one. Steps go through a list's items, or a text's characters, as those of the harness do. Of a regex's
/// match its group counts, of several the first that is not empty, without spaces around. multi_choice_regex reads the
/// document's field choices. Fails where group_select is no match of an answer, and where a step takes something of
/// nothing.
Json filtered(const AnswerFilter& filter, const std::vector<std::string>& answers,
              const Json& document = Json::object());

/// Whether an answer is the right one, and what of them does not count.
struct ExactMatch {
  bool ignore_case = false, ignore_punctuation = false, ignore_numbers = false;
  std::vector<Pattern> regexes_to_ignore = {};
  bool operator()(const std::string& answer, const std::string& right) const;
};

/// f(groups) of each match, as Python's re.finditer() finds them.
template <class F>
void each_match(const Pattern& pattern, std::string_view text, F&& f) {
  std::vector<Pattern::Span> groups;
  for (size_t from = 0; from <= text.size() && pattern.find(text, from, groups);) {
    f(groups);
    from = groups[0].end;
    if (groups[0].begin == from) from += from < text.size() ? utf8_unit(text.substr(from)).length : 1;
  }
}

/// The text with replacement(groups) in place of each match, of the first `most` of them unless it is 0, as Python's
/// re.sub() makes it.
template <class F>
std::string replaced(const Pattern& pattern, const std::string& text, F&& replacement, int64_t most = 0) {
  std::string out;
  size_t done = 0;
  int64_t count = 0;
  each_match(pattern, text, [&](const std::vector<Pattern::Span>& groups) {
    if (most && ++count > most) return;
    out += text.substr(done, groups[0].begin - done) + replacement(groups);
    done = groups[0].end;
  });
  return out + text.substr(done);
}

/// White space as Python's strings have it.
bool is_python_space(uint32_t code_point);

}  // namespace lithe
