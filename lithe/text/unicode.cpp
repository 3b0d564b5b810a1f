#include "lithe/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "lithe/base/error.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

utf8proc_category_t category(uint32_t c) { return utf8proc_category(utf8proc_int32_t(c)); }

struct Since {
  uint32_t first, last;
  int version;
};

// What lies between the characters of a range is of another kind.
constexpr Since kSince[] = {
    {0x7FD, 0x7FD, 10},     {0x890, 0x8D3, 10},     {0x8D4, 0x8E2, 9},      {0x9FE, 0x9FE, 10},
    {0xAFA, 0xAFF, 10},     {0xB55, 0xB55, 10},     {0xC04, 0xC04, 10},     {0xC3C, 0xC3C, 10},
    {0xCF3, 0xCF3, 10},     {0xD00, 0xD00, 10},     {0xD3B, 0xD3C, 10},     {0xD81, 0xD81, 10},
    {0xEBA, 0xEBA, 10},     {0xECE, 0xECE, 10},     {0x1715, 0x1715, 10},   {0x180F, 0x180F, 10},
    {0x1885, 0x1886, 9},    {0x1ABF, 0x1ACE, 10},   {0x1CF7, 0x1CF7, 10},   {0x1DF6, 0x1DFA, 10},
    {0x1DFB, 0x1DFB, 9},    {0x32FF, 0x32FF, 10},   {0xA7F2, 0xA7F4, 10},   {0xA82C, 0xA82C, 10},
    {0xA8C5, 0xA8C5, 9},    {0xA8FF, 0xA8FF, 10},   {0xA9BD, 0xA9BD, 9},    {0xAB69, 0xAB69, 10},
    {0x10781, 0x107BA, 10}, {0x10D24, 0x10F85, 10}, {0x11070, 0x11074, 10}, {0x110C2, 0x110CD, 10},
    {0x11145, 0x11146, 10}, {0x111C9, 0x111C9, 10}, {0x111CE, 0x111CF, 10}, {0x1123E, 0x1123E, 9},
    {0x11241, 0x11241, 10}, {0x1133B, 0x1133B, 10}, {0x11438, 0x1143F, 9},  {0x11442, 0x11444, 9},
    {0x11446, 0x11446, 9},  {0x1145E, 0x1145E, 10}, {0x1182C, 0x11A99, 10}, {0x11C30, 0x11C3D, 9},
    {0x11C3F, 0x11CA7, 9},  {0x11CAA, 0x11CB0, 9},  {0x11CB2, 0x11CB3, 9},  {0x11CB5, 0x11CB6, 9},
    {0x11D31, 0x13455, 10}, {0x16F4F, 0x16F4F, 10}, {0x16F7F, 0x16F87, 10}, {0x16FE4, 0x16FF1, 10},
    {0x1CF00, 0x1CF46, 10}, {0x1E000, 0x1E02A, 9},  {0x1E030, 0x1E4EF, 10}, {0x1E944, 0x1E94A, 9},
    {0x1F16C, 0x1F16C, 10}, {0x1FBF0, 0x1FBF9, 10},
};

// The normal form of text that Unicode 9 knows.
void append_normal_form(std::string& out, std::string_view text, utf8proc_option_t options) {
  utf8proc_uint8_t* result = nullptr;
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                   utf8proc_ssize_t(text.size()), &result, options);
  check(length >= 0, "tokenizer", "normalizing ", text.size(), " bytes of text: ", utf8proc_errmsg(length));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  out.append(reinterpret_cast<const char*>(result), size_t(length));
}

}  // namespace

std::string unicode_version() { return utf8proc_unicode_version(); }

bool is_white_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_word_character(uint32_t c) {
  const auto k = category(c);
  return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_ND) || k == UTF8PROC_CATEGORY_NL ||
         k == UTF8PROC_CATEGORY_PC || c == 0x200C || c == 0x200D;
}

bool is_alphanumeric(uint32_t c) {
  const auto k = category(c);
  return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO) ||
         (k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO);
}

bool is_number(uint32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_ND && k <= UTF8PROC_CATEGORY_NO;
}

bool is_symbol(uint32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_SM && k <= UTF8PROC_CATEGORY_SO;
}

bool is_punctuation(uint32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO;
}

bool is_nonspacing_mark(uint32_t c) { return category(c) == UTF8PROC_CATEGORY_MN; }

bool is_mark(uint32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_MN && k <= UTF8PROC_CATEGORY_ME;
}

bool is_control(uint32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_CC && k <= UTF8PROC_CATEGORY_CO;
}

int unicode_since(uint32_t c) {
  if (c < kSince[0].first) return 8;
  const Since* range = std::lower_bound(std::begin(kSince), std::end(kSince), c,
                                        [](const Since& r, uint32_t at) { return r.last < at; });
  return range != std::end(kSince) && c >= range->first ? range->version : 8;
}

namespace {

// Capitals of Unicode 16 and 17, which the reference library knows and utf8proc 2.8 does not: a range and how far away
// its small letters are.
struct LowerCase {
  uint32_t first, last;
  int32_t away;
};
constexpr LowerCase kLower[] = {{0x1C89, 0x1C89, 1},      {0xA7CB, 0xA7CB, 0x264 - 0xA7CB},
                                {0xA7CC, 0xA7CC, 1},      {0xA7CE, 0xA7CE, 1},
                                {0xA7D2, 0xA7D2, 1},      {0xA7D4, 0xA7D4, 1},
                                {0xA7DA, 0xA7DA, 1},      {0xA7DC, 0xA7DC, 0x19B - 0xA7DC},
                                {0x10D50, 0x10D65, 0x20}, {0x16EA0, 0x16EB8, 0x1B}};

}  // namespace

void append_lower_case(std::string& out, uint32_t c) {
  for (const LowerCase& range : kLower)
    if (c >= range.first && c <= range.last) return append_utf8(out, uint32_t(int32_t(c) + range.away));
  if (c == 0x130) {  // the one character whose lower case is two in every language
    out += "i\xCC\x87";
    return;
  }
  append_utf8(out, uint32_t(utf8proc_tolower(utf8proc_int32_t(c))));
}

void append_upper_case(std::string& out, uint32_t c) {
  if (c == 0xDF) {
    out += "SS";
    return;
  }
  append_utf8(out, uint32_t(utf8proc_toupper(utf8proc_int32_t(c))));
}

std::string normal_form(std::string_view text, NormalForm form) {
  // Below U+0300 (lead bytes below 0xCC) nothing composes; ASCII has one form only.
  const unsigned char first_changed = form == NormalForm::nfc ? 0xCC : 0x80;
  size_t plain = 0;
  while (plain < text.size() && static_cast<unsigned char>(text[plain]) < first_changed) ++plain;
  if (plain == text.size()) return std::string(text);

  int options = UTF8PROC_STABLE;
  options |= form == NormalForm::nfc || form == NormalForm::nfkc ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
  if (form == NormalForm::nfkc || form == NormalForm::nfkd) options |= UTF8PROC_COMPAT;
  std::string out;
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const Utf8Unit unit = utf8_unit(text.substr(i));
    // U+11A7 is a vowel that composes with nothing; utf8proc 2.8 takes it for the end of a syllable, and drops it.
    if (unicode_since(unit.code_point) > 9 || unit.code_point == 0x11A7) {
      append_normal_form(out, text.substr(begin, i - begin), utf8proc_option_t(options));
      out += text.substr(i, unit.length);
      begin = i + unit.length;
    }
    i += unit.length;
  }
  append_normal_form(out, text.substr(begin), utf8proc_option_t(options));
  return out;
}

}  // namespace lithe
