#include "lithe/eval/zero_shot_answers.h"

#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/text/unicode.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

using Span = Pattern::Span;

template <class F>
void each_match(const Pattern& pattern, std::string_view text, F&& f) {
  std::vector<Span> groups;
  for (size_t from = 0; from <= text.size() && pattern.find(text, from, groups);) {
    f(groups);
    from = groups[0].end;
    if (groups[0].begin == from) from += from < text.size() ? utf8_unit(text.substr(from)).length : 1;
  }
}

/// As Python's str.strip().
std::string stripped(const std::string& text) {
  size_t begin = text.size(), end = 0;
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = utf8_unit(std::string_view(text).substr(at));
    if (!is_python_space(unit.code_point)) begin = std::min(begin, at), end = at + unit.length;
    at += unit.length;
  }
  return begin < end ? text.substr(begin, end - begin) : "";
}

/// As Python's re.findall().
std::vector<std::string> find_all(const AnswerStep& step, const std::string& text) {
  std::vector<std::string> out;
  each_match(step.pattern[0], text, [&](const std::vector<Span>& groups) {
    const auto part = [&](size_t group) {
      const Span& span = groups[group];
      return span.begin == std::string::npos ? "" : text.substr(span.begin, span.end - span.begin);
    };
    if (groups.size() <= 2) return out.push_back(part(groups.size() - 1));
    for (size_t group = 1; group < groups.size(); ++group)
      if (!part(group).empty()) return out.push_back(part(group));
    out.push_back(step.fallback);
  });
  return out;
}

std::string extracted(const AnswerFilter& filter, const AnswerStep& step, const std::string& answer) {
  const std::vector<std::string> matches = find_all(step, answer);
  if (matches.empty()) return step.fallback;
  const auto count = int64_t(matches.size());
  const int64_t chosen = step.group_select < 0 ? count + step.group_select : step.group_select;
  check_usage(chosen >= 0 && chosen < count, "eval", "filter '", filter.name, "' takes match ", step.group_select,
              " of ", count, " in '", answer, "'; group_select 0 is the first, -1 the last");
  return stripped(matches[size_t(chosen)]);
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

}  // namespace

bool is_python_space(uint32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

std::string filtered(const AnswerFilter& filter, std::string answer) {
  for (const AnswerStep& step : filter.steps) switch (step.kind) {
      case AnswerStep::Kind::take_first: break;  // there is one
      case AnswerStep::Kind::remove_whitespace: answer = stripped(answer); break;
      case AnswerStep::Kind::lowercase: answer = lower_case(answer); break;
      case AnswerStep::Kind::uppercase: answer = upper_case(answer); break;
      case AnswerStep::Kind::regex: answer = extracted(filter, step, answer); break;
    }
  return answer;
}

bool ExactMatch::operator()(const std::string& answer, const std::string& right) const {
  const auto plain = [&](std::string text) {
    for (const Pattern& pattern : regexes_to_ignore) {
      std::string rest;
      size_t done = 0;
      each_match(pattern, text, [&](const std::vector<Span>& groups) {
        rest += text.substr(done, groups[0].begin - done);
        done = groups[0].end;
      });
      text = rest + text.substr(done);
    }
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
