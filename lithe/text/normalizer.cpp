#include "lithe/text/normalizer.h"

#include "lithe/base/error.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

// BERT's steps know Unicode 8, as they do in Hugging Face's library.

// The blocks that BERT's original code names; Hiragana, Katakana and Hangul are words with spaces or syllables there.
bool is_chinese(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

std::string clean(std::string_view text) {
  std::string out;
  for_each_character(text, [&](uint32_t c) {
    const bool blank = c == '\t' || c == '\n' || c == '\r' || is_white_space(c);
    if (c == 0 || c == 0xFFFD || (is_control(c) && unicode_since(c) == 8 && c != '\t' && c != '\n' && c != '\r'))
      return;
    append_utf8(out, blank ? ' ' : c);
  });
  return out;
}

Normalizer::Step without(bool (*gone)(uint32_t)) {
  return [gone](std::string_view text) {
    std::string out;
    for_each_character(text, [&](uint32_t c) {
      if (!gone(c)) append_utf8(out, c);
    });
    return out;
  };
}

std::string space_chinese(std::string_view text) {
  std::string out;
  for_each_character(text, [&](uint32_t c) {
    if (is_chinese(c)) out += ' ';
    append_utf8(out, c);
    if (is_chinese(c)) out += ' ';
  });
  return out;
}

}  // namespace

size_t max_growth(size_t bytes) { return 16 * bytes + 65536; }

void check_growth(size_t from, size_t to) {
  check(to <= max_growth(from), "tokenizer", "a step of normalizing or decoding makes more than ", max_growth(from),
        " bytes of a text of ", from, "; no tokenizer needs that: repair its file's sections normalizer and decoder");
}

std::string Normalizer::operator()(std::string_view text) const {
  std::string out;
  while (!text.empty()) {
    const size_t valid = valid_utf8_prefix(text);
    if (valid > 0) {
      std::string part(text.substr(0, valid));
      for (const Step& step : steps_) {
        part = step(part);
        check_growth(valid, part.size());
      }
      out += part;
      text.remove_prefix(valid);
    }
    if (text.empty()) break;
    const size_t invalid = utf8_unit(text).length;
    out += text.substr(0, invalid);
    text.remove_prefix(invalid);
  }
  return out;
}

Normalizer::Step lower_case() {
  return [](std::string_view text) {
    std::string out;
    out.reserve(text.size());
    for (size_t i = 0; i < text.size();) {
      if (const char c = text[i]; static_cast<unsigned char>(c) < 0x80) {
        out += char(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
        ++i;
        continue;
      }
      const Utf8Unit unit = utf8_unit(text.substr(i));
      append_lower_case(out, unit.code_point);
      i += unit.length;
    }
    return out;
  };
}

Normalizer::Step nmt_normalization() {
  return [](std::string_view text) {
    std::string out;
    for_each_character(text, [&](uint32_t c) {
      if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F) return;
      const bool blank = c == '\t' || c == '\n' || c == 0xC || c == '\r' || c == 0x1680 ||
                         (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF ||
                         c == 0xFFFD;
      append_utf8(out, blank ? ' ' : c);
    });
    return out;
  };
}

Normalizer::Step strip_white_space(bool left, bool right) {
  return [left, right](std::string_view text) {
    size_t begin = text.size(), end = 0;
    for (size_t i = 0; i < text.size();) {
      const Utf8Unit unit = utf8_unit(text.substr(i));
      if (!is_white_space(unit.code_point)) begin = std::min(begin, i), end = i + unit.length;
      i += unit.length;
    }
    if (begin == text.size()) return std::string(left || right ? std::string_view() : text);
    if (!left) begin = 0;
    return std::string(text.substr(begin, (right ? end : text.size()) - begin));
  };
}

Normalizer::Step strip_marks() {
  return without([](uint32_t c) {
    return (is_mark(c) && unicode_since(c) <= 9) || c == 0x1CF2 || c == 0x1CF3;  // marks until Unicode 12
  });
}

Normalizer::Step bert_normalization(const BertNormalization& options) {
  const Normalizer::Step strip = without([](uint32_t c) {
    return (is_nonspacing_mark(c) && unicode_since(c) == 8) || c == 0x1734;  // nonspacing until Unicode 14
  });
  return [options, lower = lower_case(), strip](std::string_view text) {
    std::string out(text);
    if (options.clean_text) out = clean(out);
    if (options.chinese) out = space_chinese(out);
    if (options.strip_accents) out = strip(normal_form(out, NormalForm::nfd));
    if (options.lowercase) out = lower(out);
    return out;
  };
}

}  // namespace lithe
