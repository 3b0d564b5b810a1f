#include "lithe/text/utf8.h"

#include <cstring>

namespace lithe {

Utf8Unit utf8_unit(std::string_view text) {
  using Kind = Utf8Unit::Kind;
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {Kind::character, lead, 1};
  // Table 3-7 of the Unicode standard: the second byte's range depends on the first.
  size_t length = 0;
  unsigned low = 0x80, high = 0xBF;
  uint32_t point = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2, point = lead & 0x1F;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3, point = lead & 0x0F;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4, point = lead & 0x07;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {Kind::invalid, 0, 1};
  }
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {Kind::incomplete, 0, i};
    if (byte(i) < low || byte(i) > high) return {Kind::invalid, 0, i};
    point = point << 6 | (byte(i) & 0x3F);
    low = 0x80, high = 0xBF;
  }
  return {Kind::character, point, length};
}

size_t valid_utf8_prefix(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    uint64_t eight;
    while (i + 8 <= text.size() && (std::memcpy(&eight, text.data() + i, 8), (eight & 0x8080808080808080ull) == 0))
      i += 8;
    if (i == text.size()) break;
    const Utf8Unit unit = utf8_unit(text.substr(i));
    if (unit.kind != Utf8Unit::Kind::character) return i;
    i += unit.length;
  }
  return i;
}

void append_utf8(std::string& out, uint32_t c) {
  if (c < 0x80) {
    out += char(c);
  } else if (c < 0x800) {
    out += {char(0xC0 | c >> 6), char(0x80 | (c & 0x3F))};
  } else if (c < 0x10000) {
    out += {char(0xE0 | c >> 12), char(0x80 | (c >> 6 & 0x3F)), char(0x80 | (c & 0x3F))};
  } else {
    out += {char(0xF0 | c >> 18), char(0x80 | (c >> 12 & 0x3F)), char(0x80 | (c >> 6 & 0x3F)), char(0x80 | (c & 0x3F))};
  }
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t valid = valid_utf8_prefix(text);
    out += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) break;
    out += "\xEF\xBF\xBD";
    text.remove_prefix(utf8_unit(text).length);
  }
  return out;
}

}  // namespace lithe
