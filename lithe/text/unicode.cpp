#include "lithe/text/unicode.h"

#include <utf8proc.h>

#include <cstdlib>
#include <memory>

#include "lithe/base/error.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

utf8proc_category_t category(uint32_t c) { return utf8proc_category(utf8proc_int32_t(c)); }

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

bool is_control(uint32_t c) {
  const auto k = category(c);
  return k >= UTF8PROC_CATEGORY_CC && k <= UTF8PROC_CATEGORY_CO;
}

void append_lower_case(std::string& out, uint32_t c) {
  if (c == 0x130) {  // the one character whose lower case is two in every language
    out += "i\xCC\x87";
    return;
  }
  append_utf8(out, uint32_t(utf8proc_tolower(utf8proc_int32_t(c))));
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
  utf8proc_uint8_t* result = nullptr;
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                   utf8proc_ssize_t(text.size()), &result, utf8proc_option_t(options));
  check(length >= 0, "tokenizer", "normalizing ", text.size(), " bytes of text: ", utf8proc_errmsg(length));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(result, &std::free);
  return std::string(reinterpret_cast<const char*>(result), size_t(length));
}

}  // namespace lithe
