// UTF-8: scanning, code points, repair.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lithe {

/// Length of the longest prefix that is valid UTF-8 (no surrogates, no overlong forms, at most U+10FFFF).
size_t valid_utf8_prefix(std::string_view text);
inline bool is_valid_utf8(std::string_view text) { return valid_utf8_prefix(text) == text.size(); }

/// What stands at the start of non-empty `text`: a character, or a sequence of bytes that is no UTF-8.
struct Utf8Unit {
  enum class Kind { character, invalid, incomplete };  // incomplete: `text` ends within a character
  Kind kind;
  uint32_t code_point;  // 0 unless a character
  size_t length;        // of an invalid unit: what one U+FFFD replaces (Unicode 3.9, maximal subparts)
};
Utf8Unit utf8_unit(std::string_view text);

/// Appends a code point, which must be a Unicode scalar value.
void append_utf8(std::string& out, uint32_t code_point);

/// `text` with everything that is no UTF-8 replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

/// Calls f(code_point) for each character of valid UTF-8.
template <class F>
void for_each_character(std::string_view text, F&& f) {
  for (size_t i = 0; i < text.size();) {
    const Utf8Unit unit = utf8_unit(text.substr(i));
    f(unit.code_point);
    i += unit.length;
  }
}

}  // namespace lithe
