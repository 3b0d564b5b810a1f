#include "lithe/text/byte_alphabet.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "lithe/text/utf8.h"

namespace lithe {
namespace {

constexpr bool printable(int b) { return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE; }

struct Alphabet {
  std::array<uint16_t, 256> spelling{};
  std::array<int16_t, 512> byte{};  // by code point; -1: spells none
  std::array<uint8_t, 256> order{};
};

constexpr Alphabet make_alphabet() {
  Alphabet a;
  for (auto& byte : a.byte) byte = -1;
  int extra = 0;
  for (int b = 0; b < 256; ++b) {
    a.spelling[b] = uint16_t(printable(b) ? b : 256 + extra++);
    a.byte[a.spelling[b]] = int16_t(b);
  }
  int n = 0;
  for (const int16_t byte : a.byte)
    if (byte >= 0) a.order[n++] = uint8_t(byte);
  return a;
}

constexpr Alphabet alphabet = make_alphabet();

}  // namespace

uint32_t spell_byte(uint8_t byte) { return alphabet.spelling[byte]; }
uint8_t byte_in_spelling_order(int i) { return alphabet.order[i]; }

std::string spell_bytes(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) append_utf8(out, spell_byte(uint8_t(c)));
  return out;
}

std::optional<std::string> unspell_bytes(std::string_view spelling) {
  std::string out;
  bool known = true;
  for_each_character(spelling, [&](uint32_t point) {
    if (point < alphabet.byte.size() && alphabet.byte[point] >= 0)
      out += char(alphabet.byte[point]);
    else
      known = false;
  });
  if (!known) return {};
  return out;
}

std::optional<char> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return {};
  const std::string digits(token.substr(3, 2));
  char* end = nullptr;
  const long value = std::strtol(digits.c_str(), &end, 16);
  if (end != digits.c_str() + 2) return {};
  return char(value);
}

std::string unspell_spaces(std::string_view token) {
  constexpr std::string_view space = "\u2581";
  std::string out;
  for (size_t i = 0; i < token.size();) {
    const bool found = token.substr(i).starts_with(space);
    out += found ? ' ' : token[i];
    i += found ? space.size() : 1;
  }
  return out;
}

}  // namespace lithe
