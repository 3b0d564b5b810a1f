#include "lithe/eval/zero_shot_answers.h"

#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/eval/python_value.h"
#include "lithe/eval/template_nodes.h"
#include "lithe/text/unicode.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

using Span = Pattern::Span;

/// As Python's re.findall().
std::vector<std::string> find_all(const Pattern& pattern, const std::string& text, const std::string& empty_groups) {
  std::vector<std::string> out;
  each_match(pattern, text, [&](const std::vector<Span>& groups) {
    const auto part = [&](size_t group) {
      const Span& span = groups[group];
      return span.begin == std::string::npos ? "" : text.substr(span.begin, span.end - span.begin);
    };
    if (groups.size() <= 2) return out.push_back(part(groups.size() - 1));
    for (size_t group = 1; group < groups.size(); ++group)
      if (!part(group).empty()) return out.push_back(part(group));
    out.push_back(empty_groups);
  });
  return out;
}

const std::string& selected(const AnswerFilter& filter, const AnswerStep& step, const std::vector<std::string>& matches,
                            const std::string& answer) {
  const auto count = int64_t(matches.size());
  const int64_t chosen = step.group_select < 0 ? count + step.group_select : step.group_select;
  check_usage(chosen >= 0 && chosen < count, "eval", "filter '", filter.name, "' takes match ", step.group_select,
              " of ", count, " in '", answer, "'; group_select 0 is the first, -1 the last");
  return matches[size_t(chosen)];
}

std::string extracted(const AnswerFilter& filter, const AnswerStep& step, const std::string& answer) {
  const std::vector<std::string> matches = find_all(step.pattern[0], answer, step.fallback);
  return matches.empty() ? step.fallback : python_strip(selected(filter, step, matches, answer));
}

std::string lower_case(const std::string& text) {
  std::string out;
  for_each_character(text, [&](uint32_t c) { append_lower_case(out, c); });
  return out;
}

std::string upper_case(const std::string& text) {
  std::string out;
  for_each_character(text, [&](uint32_t c) { append_upper_case(out, c); });
  return out;
}

std::string without_matches(const std::vector<Pattern>& patterns, std::string text) {
  for (const Pattern& pattern : patterns)
    text = replaced(pattern, text, [](const std::vector<Span>&) { return std::string(); });
  return text;
}

// The texts of choices in a text, from left to right, at each place the longest.
std::vector<std::string> choices_in(const std::string& text, std::vector<std::string> choices) {
  std::stable_sort(choices.begin(), choices.end(), [](const std::string& a, const std::string& b) {
    return characters_of(a).size() > characters_of(b).size();
  });
  std::vector<std::string> out;
  for (size_t at = 0; at <= text.size();) {
    const auto found = std::find_if(choices.begin(), choices.end(),
                                    [&](const std::string& one) { return text.compare(at, one.size(), one) == 0; });
    if (found != choices.end()) out.push_back(*found);
    if (found != choices.end() && !found->empty())
      at += found->size();
    else
      at += at < text.size() ? utf8_unit(std::string_view(text).substr(at)).length : 1;
  }
  return out;
}

// "(B)" of a document's choices A, B, ...: as the pattern finds it, else of the text of a choice, else of a colon and a
// letter.
std::string chosen_letter(const AnswerFilter& filter, const AnswerStep& step, const std::string& answer,
                          const Json& document) {
  if (const auto matches = find_all(step.pattern[0], answer, ""); !matches.empty())
    if (std::string letter = python_strip(selected(filter, step, matches, answer)); !letter.empty()) return letter;
  const auto plain = [&](std::string text) {
    text = without_matches(step.regexes_to_ignore, std::move(text));
    if (step.ignore_case) text = lower_case(text);
    if (!step.ignore_punctuation) return text;
    std::string out;
    for (const std::string& c : characters_of(text))
      if (!is_punctuation(utf8_unit(c).code_point)) out += c;
    return out;
  };
  check(document.contains("choices") && document["choices"].is_structured(), "eval", "filter '", filter.name,
        "': multi_choice_regex needs a document's field choices, a list of texts");
  std::vector<std::string> choices;
  for (const Json& one : items_of_value(document["choices"], filter.name)) {
    check(one.is_string(), "eval", "filter '", filter.name, "': a choice is ", python_repr(one), ", which is no text");
    choices.push_back(plain(python_strip(one.get<std::string>())));
  }
  const auto letter_of = [](size_t choice) { return std::string(1, char('A' + choice)); };
  constexpr size_t kLetters = 26;
  check(choices.size() <= kLetters, "eval", "filter '", filter.name, "': a document has ", choices.size(),
        " choices, more than letters");
  if (const auto matches = choices_in(plain(answer), choices); !matches.empty()) {
    const std::string text = python_strip(selected(filter, step, matches, answer));
    // Of choices of the same text the last one counts.
    if (const auto at = std::find(choices.rbegin(), choices.rend(), text); !text.empty() && at != choices.rend())
      return "(" + letter_of(size_t(choices.rend() - at) - 1) + ")";
    if (!text.empty()) return text;
  }
  std::string letters;
  for (size_t i = 0; i < choices.size(); ++i) letters += (i ? "|" : "") + letter_of(i);
  const Pattern after_colon = Pattern::python(R"(:[\s]*()" + letters + ")", "multi_choice_regex");
  if (const auto matches = find_all(after_colon, answer, ""); !matches.empty()) {
    const std::string& letter = selected(filter, step, matches, answer);
    return letter.empty() ? step.fallback : "(" + letter + ")";
  }
  return step.fallback;
}

// What Python's for goes through.
std::vector<Json> items_of(const Json& value, const AnswerFilter& filter) {
  check(value.is_array() || value.is_string(), "eval", "filter '", filter.name, "' has a step after map or take_first ",
        "that needs texts, and gets ", python_repr(value));
  return items_of_value(value, filter.name);
}

Json most_frequent(const std::vector<Json>& items) {
  size_t best = 0;
  int64_t most = 0;
  for (size_t i = 0; i < items.size(); ++i)
    if (const int64_t n = std::count(items.begin(), items.end(), items[i]); n > most) most = n, best = i;
  return items[best];
}

Json changed(const AnswerFilter& filter, const AnswerStep& step, const Json& item, const Json& document) {
  using Kind = AnswerStep::Kind;
  if (step.kind == Kind::map) {
    const std::string key = item.is_string() ? item.get<std::string>() : "";
    return item.is_string() && step.mapping.contains(key) ? step.mapping[key] : step.default_value;
  }
  const bool regex = step.kind == Kind::regex || step.kind == Kind::multi_choice_regex;
  check(item.is_string() || regex, "eval", "filter '", filter.name, "' has a step that needs texts, and gets ",
        python_repr(item));
  const std::string text = item.is_string() ? item.get<std::string>() : "";
  switch (step.kind) {
    case Kind::remove_whitespace: return python_strip(text);
    case Kind::lowercase: return lower_case(text);
    case Kind::uppercase: return upper_case(text);
    case Kind::regex: return extracted(filter, step, text);
    default: return chosen_letter(filter, step, text, document);
  }
}

}  // namespace

bool is_python_space(uint32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

Json filtered(const AnswerFilter& filter, const std::vector<std::string>& answers, const Json& document) {
  using Kind = AnswerStep::Kind;
  Json value = answers;
  for (const AnswerStep& step : filter.steps) {
    const std::vector<Json> items = items_of(value, filter);
    check(!items.empty() || (step.kind != Kind::take_first && step.kind != Kind::majority_vote), "eval", "filter '",
          filter.name, "' takes an answer of none");
    switch (step.kind) {
      case Kind::take_first: value = items[0]; break;
      case Kind::take_first_k:
        value = std::vector<Json>(items.begin(), items.begin() + std::min<int64_t>(step.k, int64_t(items.size())));
        break;
      case Kind::majority_vote: value = Json::array({most_frequent(items)}); break;
      default:
        value = Json::array();
        for (const Json& one : items) value.push_back(changed(filter, step, one, document));
    }
  }
  return value;
}

bool ExactMatch::operator()(const std::string& answer, const std::string& right) const {
  const auto plain = [&](std::string text) {
    text = without_matches(regexes_to_ignore, std::move(text));
    if (ignore_case) text = lower_case(text);
    std::erase_if(text, [&](char c) {
      const auto ascii = static_cast<unsigned char>(c);
      return ascii < 0x80 && ((ignore_punctuation && std::ispunct(ascii)) || (ignore_numbers && std::isdigit(ascii)));
    });
    return text;
  };
  return plain(answer) == plain(right);
}

}  // namespace lithe
