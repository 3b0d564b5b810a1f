#include "lithe/text/charsmap.h"

#include <utf8proc.h>

#include <cstring>

#include "lithe/base/error.h"
#include "lithe/text/normalizer.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

// A unit of the double array: the byte that leads here, where its children are, whether a string ends here.
uint32_t label(uint32_t unit) { return unit & 0x800000FFu; }
uint32_t offset(uint32_t unit) { return (unit >> 10) << ((unit & 0x200u) >> 6); }
bool has_leaf(uint32_t unit) { return unit >> 8 & 1; }
uint32_t value(uint32_t unit) { return unit & 0x7FFFFFFFu; }

}  // namespace

Charsmap::Charsmap(std::string_view blob, const std::string& place) {
  uint32_t bytes = 0;
  check(blob.size() >= sizeof bytes, "tokenizer", place, " holds no rules: ", blob.size(), " bytes");
  std::memcpy(&bytes, blob.data(), sizeof bytes);
  check(bytes > 0 && bytes % 4 == 0 && bytes <= blob.size() - sizeof bytes, "tokenizer", place,
        " says that its trie has ", bytes, " bytes, and has ", blob.size() - sizeof bytes, " in all");
  units_.resize(bytes / 4);
  std::memcpy(units_.data(), blob.data() + sizeof bytes, bytes);
  replacements_ = blob.substr(sizeof bytes + bytes);
  check(replacements_.empty() || replacements_.back() == '\0', "tokenizer", place, ": the last replacement has no end");
  check(is_valid_utf8(replacements_), "tokenizer", place, ": replacements are not UTF-8 at byte ",
        valid_utf8_prefix(replacements_));
}

std::optional<std::string_view> Charsmap::find(std::string_view characters) const {
  uint32_t node = offset(units_[0]);
  for (const char c : characters) {
    node ^= uint8_t(c);
    if (c == '\0' || node >= units_.size() || label(units_[node]) != uint8_t(c)) return {};
    const uint32_t unit = units_[node];
    node ^= offset(unit);
    if (!has_leaf(unit)) continue;
    if (node >= units_.size() || value(units_[node]) >= replacements_.size()) return {};
    const uint32_t at = value(units_[node]);
    return std::string_view(replacements_).substr(at, replacements_.find('\0', at) - at);
  }
  return {};
}

std::string Charsmap::operator()(std::string_view text) const {
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    Utf8Unit unit = utf8_unit(text.substr(begin));
    size_t end = begin + unit.length;
    utf8proc_int32_t state = 0;
    for (auto before = utf8proc_int32_t(unit.code_point); end < text.size();) {
      unit = utf8_unit(text.substr(end));
      const auto next = utf8proc_int32_t(unit.code_point);
      if (utf8proc_grapheme_break_stateful(before, next, &state)) break;
      before = next;
      end += unit.length;
    }
    const std::string_view grapheme = text.substr(begin, end - begin);
    begin = end;
    if (const auto whole = grapheme.size() < 6 ? find(grapheme) : std::nullopt) {
      out += *whole;
    } else {
      for (size_t i = 0; i < grapheme.size();) {
        const std::string_view character = grapheme.substr(i, utf8_unit(grapheme.substr(i)).length);
        out += find(character).value_or(character);
        i += character.size();
      }
    }
    check_growth(text.size(), out.size());
  }
  return out;
}

}  // namespace lithe
