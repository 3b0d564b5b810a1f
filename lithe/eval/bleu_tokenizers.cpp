#include "lithe/eval/bleu_tokenizers.h"

#include <map>

#include "lithe/base/error.h"
#include "lithe/base/fields.h"
#include "lithe/eval/text_ngrams.h"
#include "lithe/text/unicode.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

using Characters = std::u32string;

Characters characters_of(std::string_view text) {
  Characters out;
  for_each_character(valid_utf8(text), [&](uint32_t c) { out += char32_t(c); });
  return out;
}

std::string utf8_of(const Characters& text) {
  std::string out;
  for (const char32_t c : text) append_utf8(out, uint32_t(c));
  return out;
}

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
}

// As a regular expression of two characters replaces from left to right: where (first, second) holds, puts `before`
// spaces before, one between and `behind` after them; a character is in one match only.
template <class Text, class First, class Second>
Text space_pairs(const Text& text, First&& first, Second&& second, int before, int behind) {
  Text out;
  const auto space = typename Text::value_type(' ');
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 == text.size() || !first(text[i]) || !second(text[i + 1])) {
      out += text[i];
      continue;
    }
    out.append(size_t(before), space);
    out += text[i];
    out += space;
    out += text[++i];
    out.append(size_t(behind), space);
  }
  return out;
}

template <class Text, class Alone>
Text space_around(const Text& text, Alone&& alone) {
  Text out;
  const auto space = typename Text::value_type(' ');
  for (const auto c : text) {
    if (alone(c))
      out += Text{space, c, space};
    else
      out += c;
  }
  return out;
}

std::vector<std::string> tokenize_none(std::string_view text) { return split_words(text); }

std::vector<std::string> tokenize_char(std::string_view text) {
  std::vector<std::string> out;
  for (const std::string& word : split_words(text))
    for_each_character(word, [&](uint32_t c) { append_utf8(out.emplace_back(), c); });
  return out;
}

// Works on bytes: all it looks for is ASCII.
std::vector<std::string> tokenize_13a(std::string_view text) {
  std::string line(without_end_space(text));
  replace_all(line, "<skipped>", "");
  replace_all(line, "-\n", "");
  replace_all(line, "\n", " ");
  replace_all(line, "&quot;", "\"");
  replace_all(line, "&amp;", "&");
  replace_all(line, "&lt;", "<");
  replace_all(line, "&gt;", ">");
  line = " " + line + " ";
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto other = [&](char c) { return !digit(c); };
  const auto point = [](char c) { return c == '.' || c == ','; };
  line = space_around(line, [](char c) {
    return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
           (c >= ':' && c <= '@') || c == '/';
  });
  line = space_pairs(line, other, point, 0, 1);
  line = space_pairs(line, point, other, 1, 0);
  line = space_pairs(
      line, digit, [](char c) { return c == '-'; }, 0, 1);
  return split_words(line);
}

std::vector<std::string> tokenize_intl(std::string_view text) {
  const auto other = [](char32_t c) { return !is_number(uint32_t(c)); };
  const auto punctuation = [](char32_t c) { return is_punctuation(uint32_t(c)); };
  Characters line = characters_of(without_end_space(text));
  line = space_pairs(line, other, punctuation, 0, 1);
  line = space_pairs(line, punctuation, other, 1, 0);
  line = space_around(line, [](char32_t c) { return is_symbol(uint32_t(c)); });
  return split_words(utf8_of(line));
}

const std::map<std::string, BleuTokenizer>& tokenizers() {
  static const std::map<std::string, BleuTokenizer> all = {
      {"13a", tokenize_13a}, {"char", tokenize_char}, {"intl", tokenize_intl}, {"none", tokenize_none}};
  return all;
}

}  // namespace

const std::vector<std::string>& bleu_tokenizer_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const auto& [name, tokenizer] : tokenizers()) out.push_back(name);
    return out;
  }();
  return names;
}

BleuTokenizer bleu_tokenizer(const std::string& name) {
  const auto found = tokenizers().find(name);
  check_usage(found != tokenizers().end(), "bleu", "the tokenizer must be one of ", join(bleu_tokenizer_names()),
              ", got '", name, "'");
  return found->second;
}

}  // namespace lithe
