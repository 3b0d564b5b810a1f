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
bool ends_rule(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value(uint32_t unit) { return unit & 0x7FFFFFFFu; }

/// Walks every way through a double array.
class Checker {
 public:
  Checker(const std::vector<uint32_t>& units, std::string_view replacements, const std::string& place)
      : units_(units), replacements_(replacements), place_(place), state_(units.size()) {
    walk(offset(units[0]), 0);
  }

 private:
  static constexpr int deepest = 1000;  // bytes of a rule's left side
  static constexpr size_t longest_replacement = 1024;
  enum class State : uint8_t { unseen, in_progress, done };
  const std::vector<uint32_t>& units_;
  std::string_view replacements_;
  const std::string& place_;
  std::vector<State> state_;  // by the place of a node's children

  template <class... Args>
  void require(bool rule, const Args&... message) const {
    check(rule, "tokenizer", place_, ": the rules of normalization are damaged: ", message...);
  }

  /// From the node whose children stand at `base` ^ byte.
  void walk(size_t base, int depth) {
    require((base | 255) < units_.size(), "place ", base, " of ", units_.size());
    require(depth < deepest && state_[base] != State::in_progress, "a rule for more than ", deepest,
            " bytes, or a circle");
    if (state_[base] == State::done) return;
    state_[base] = State::in_progress;
    for (uint32_t byte = 1; byte < 256; ++byte) {  // a zero byte is in no rule
      const size_t child = base ^ byte;
      const uint32_t unit = units_[child];
      if (label(unit) != byte) continue;
      const size_t next = child ^ offset(unit);
      walk(next, depth + 1);
      if (ends_rule(unit)) check_replacement(value(units_[next]));
    }
    state_[base] = State::done;
  }

  void check_replacement(size_t at) const {
    require(at < replacements_.size(), "replacement at ", at, " of ", replacements_.size(), " bytes");
    const size_t end = replacements_.find('\0', at);
    require(end != replacements_.npos && end - at <= longest_replacement, "a replacement of more than ",
            longest_replacement, " bytes");
    require(is_valid_utf8(replacements_.substr(at, end - at)), "a replacement that is no UTF-8");
  }
};

}  // namespace

Charsmap::Charsmap(std::string_view blob, const std::string& place) {
  uint32_t bytes = 0;
  check(blob.size() > sizeof bytes, "tokenizer", place, ": the rules of normalization have ", blob.size(), " bytes");
  std::memcpy(&bytes, blob.data(), sizeof bytes);
  blob.remove_prefix(sizeof bytes);
  check(bytes >= 4 && bytes % 4 == 0 && bytes <= blob.size(), "tokenizer", place,
        ": the rules of normalization announce ", bytes, " bytes of ", blob.size());
  units_.resize(bytes / 4);
  std::memcpy(units_.data(), blob.data(), bytes);
  replacements_ = blob.substr(bytes);
  Checker(units_, replacements_, place);
}

/// Calls f(length, replacement) for the rules that start `text`, shortest first, until it returns false.
template <class F>
void Charsmap::rules(std::string_view text, F&& f) const {
  uint32_t node = offset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    node ^= uint8_t(text[i]);
    const uint32_t unit = units_[node];
    if (text[i] == '\0' || label(unit) != uint8_t(text[i])) return;
    node ^= offset(unit);
    if (!ends_rule(unit)) continue;
    const uint32_t at = value(units_[node]);
    if (!f(i + 1, std::string_view(replacements_).substr(at, replacements_.find('\0', at) - at))) return;
  }
}

std::optional<Charsmap::Rule> Charsmap::longest(std::string_view text) const {
  std::optional<Rule> found;
  rules(text, [&](size_t length, std::string_view replacement) {
    found = {length, replacement};
    return true;
  });
  return found;
}

std::optional<std::string_view> Charsmap::shortest(std::string_view text) const {
  std::optional<std::string_view> found;
  rules(text, [&](size_t, std::string_view replacement) {
    found = replacement;
    return false;
  });
  return found;
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
    if (const auto whole = grapheme.size() < 6 ? shortest(grapheme) : std::nullopt) {
      out += *whole;
    } else {
      for (size_t i = 0; i < grapheme.size();) {
        const std::string_view character = grapheme.substr(i, utf8_unit(grapheme.substr(i)).length);
        out += shortest(character).value_or(character);
        i += character.size();
      }
    }
    check_growth(text.size(), out.size());
  }
  return out;
}

}  // namespace lithe
