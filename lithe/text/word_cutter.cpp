#include "lithe/text/word_cutter.h"

#include <array>
#include <vector>

#include "lithe/text/unicode.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

constexpr size_t block_words = 1 << 17;

enum class Class : uint8_t { space, word, other };

Class class_of(uint32_t c) {
  if (is_white_space(c) || (c >= 0x1C && c <= 0x1F)) return Class::space;
  return c == '_' || is_alphanumeric(c) ? Class::word : Class::other;
}

std::array<Class, 128> ascii_classes() {
  std::array<Class, 128> classes;
  for (uint32_t c = 0; c < classes.size(); ++c) classes[c] = class_of(c);
  return classes;
}

}  // namespace

WordCutter::WordCutter(bool lowercase) {
  if (lowercase) normalizer_.add(lower_case());
}

// spec: tok.whitespace | tokenizer | words and runs of punctuation; pairs as <s>A</s></s>B</s> | TH 2.4.2
void WordCutter::words(std::string_view text, const Sink& sink) const {
  static const std::array<Class, 128> ascii = ascii_classes();
  std::string lowered;
  if (!normalizer_.empty()) text = lowered = normalizer_(text);

  std::vector<std::string_view> words;
  size_t begin = 0;
  Class run = Class::space;
  const auto end_run = [&](size_t at) {
    if (run != Class::space) words.push_back(text.substr(begin, at - begin));
    begin = at;
  };
  for (size_t at = 0; at < text.size();) {
    const unsigned char lead = static_cast<unsigned char>(text[at]);
    const Utf8Unit unit = lead < 0x80 ? Utf8Unit{Utf8Unit::Kind::character, lead, 1} : utf8_unit(text.substr(at));
    const Class next = unit.kind != Utf8Unit::Kind::character ? Class::other
                       : lead < 0x80                          ? ascii[lead]
                                                              : class_of(unit.code_point);
    if (next != run) {
      end_run(at);
      run = next;
      if (words.size() >= block_words) {
        sink(words);
        words.clear();
      }
    }
    at += unit.length;
  }
  end_run(text.size());
  if (!words.empty()) sink(words);
}

}  // namespace lithe
