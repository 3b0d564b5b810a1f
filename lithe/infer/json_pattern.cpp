#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/infer/json_grammar.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

using Sequence = GrammarBuilder::Sequence;
constexpr uint32_t kLastControl = 0x1F;
constexpr int kDeepestPattern = 100;

const CharRanges& digits() {
  static const CharRanges ranges{{'0', '9'}};
  return ranges;
}
const CharRanges& word() {
  static const CharRanges ranges{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return ranges;
}
const CharRanges& space() {
  static const CharRanges ranges{{9, 13},          {32, 32},         {0xA0, 0xA0},     {0x1680, 0x1680},
                                 {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                 {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return ranges;
}
const CharRanges& line_ends() {
  static const CharRanges ranges{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return ranges;
}

std::string escaped(uint32_t control) {
  const std::string quoted = dump(Json(std::string(1, char(control))), -1);
  return quoted.substr(1, quoted.size() - 2);
}

class Pattern {
 public:
  Pattern(GrammarBuilder& builder, const std::string& pattern, const std::string& where)
      : builder_(builder), pattern_(pattern), where_(where) {
    expect(is_valid_utf8(pattern), "is no UTF-8");
  }
  Sequence read() {
    std::vector<Sequence> choices;
    do {
      if (!choices.empty()) ++at_;
      const bool begins = peek() == '^';
      if (begins) ++at_;
      Sequence one = read_terms(0);
      const bool ends = peek() == '$';
      if (ends) ++at_;
      expect(at_ == pattern_.size() || peek() == '|', "has ", shown(), " where nothing is understood");
      if (!begins) one = GrammarBuilder::join({anything(), one});
      if (!ends) one = GrammarBuilder::join({one, anything()});
      choices.push_back(std::move(one));
    } while (peek() == '|');
    return builder_.either(std::move(choices));
  }

 private:
  GrammarBuilder& builder_;
  const std::string& pattern_;
  const std::string& where_;
  size_t at_ = 0;

  template <class... What>
  void expect(bool good, const What&... what) const {
    check_usage(good, "json_schema", where_, ": the pattern '", valid_utf8(pattern_), "' ", what...);
  }
  char peek() const { return at_ < pattern_.size() ? pattern_[at_] : '\0'; }
  std::string shown() const { return at_ < pattern_.size() ? cat("'", pattern_.substr(at_, 1), "'") : "an end"; }
  Sequence anything() { return builder_.repeat(json_character(builder_, others({})), 0, {}); }

  Sequence read_choices(int depth) {
    expect(depth < kDeepestPattern, "has groups ", depth, " deep within each other");
    std::vector<Sequence> choices{read_terms(depth)};
    while (peek() == '|') ++at_, choices.push_back(read_terms(depth));
    return builder_.either(std::move(choices));
  }
  Sequence read_terms(int depth) {
    Sequence out;
    while (at_ < pattern_.size() && peek() != '|' && peek() != ')' && peek() != '$') {
      Sequence one = read_repeats(read_term(depth));
      out.insert(out.end(), one.begin(), one.end());
    }
    return out;
  }
  Sequence read_term(int depth) {
    const char c = peek();
    if (c == '(') {
      ++at_;
      if (pattern_.compare(at_, 2, "?:") == 0)
        at_ += 2;
      else
        expect(peek() != '?', "has a group of a kind that is not supported");
      Sequence out = read_choices(depth + 1);
      expect(peek() == ')', "has a group that does not end, or an anchor within one");
      ++at_;
      return out;
    }
    if (c == '[') return json_character(builder_, read_class());
    if (c == '.') return ++at_, json_character(builder_, others(line_ends()));
    if (c == '\\') return json_character(builder_, read_escape());
    expect(c != '^' && c != '*' && c != '+' && c != '?' && c != '{', "has ", shown(),
           " where a character was expected");
    const uint32_t one = character();
    return json_character(builder_, {{one, one}});
  }
  Sequence read_repeats(Sequence x) {
    int64_t least = 1;
    std::optional<int64_t> most = 1;
    const char c = peek();
    if (c == '*') {
      ++at_, least = 0, most.reset();
    } else if (c == '+') {
      ++at_, most.reset();
    } else if (c == '?') {
      ++at_, least = 0;
    } else if (c == '{') {
      ++at_;
      most = least = number();
      if (peek() == ',') {
        ++at_;
        most.reset();
        if (peek() != '}') most = number();
      }
      expect(peek() == '}', "has a repetition that does not end");
      ++at_;
    } else {
      return x;
    }
    if (peek() == '?') ++at_;  // the shortest first: the same texts
    expect(!most || least <= *most, "repeats from ", least, " to ", most.value_or(0), " times");
    return builder_.repeat(x, least, most);
  }
  int64_t number() {
    int64_t out = 0;
    const size_t begin = at_;
    for (; peek() >= '0' && peek() <= '9' && at_ - begin < 9; ++at_) out = 10 * out + (peek() - '0');
    expect(at_ > begin, "has a repetition without a number");
    return out;
  }
  uint32_t character() {
    const Utf8Unit unit = utf8_unit(std::string_view(pattern_).substr(at_));
    at_ += unit.length;
    return unit.code_point;
  }
  CharRanges read_escape() {
    ++at_;
    expect(at_ < pattern_.size(), "ends in '\\'");
    const char c = pattern_[at_];
    switch (c) {
      case 'd': return ++at_, digits();
      case 'D': return ++at_, others(digits());
      case 'w': return ++at_, word();
      case 'W': return ++at_, others(word());
      case 's': return ++at_, space();
      case 'S': return ++at_, others(space());
      case 'n': return ++at_, CharRanges{{'\n', '\n'}};
      case 't': return ++at_, CharRanges{{'\t', '\t'}};
      case 'r': return ++at_, CharRanges{{'\r', '\r'}};
      case 'f': return ++at_, CharRanges{{'\f', '\f'}};
      case 'v': return ++at_, CharRanges{{'\v', '\v'}};
      case 'x': return ++at_, hex(2);
      case 'u': return ++at_, hex(4);
      default: break;
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    expect(!letter, "has '\\", std::string(1, c), "', which is not supported");
    const uint32_t one = character();
    return {{one, one}};
  }
  CharRanges hex(size_t count) {
    const std::string text = pattern_.substr(at_, count);
    expect(text.size() == count && text.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos,
           "has an escape without ", count, " hexadecimal digits");
    at_ += count;
    const auto one = uint32_t(std::stoul(text, nullptr, 16));
    expect(one < 0xD800 || one > 0xDFFF, "has half a surrogate pair");
    return {{one, one}};
  }
  CharRanges read_class() {
    ++at_;
    const bool negated = peek() == '^';
    if (negated) ++at_;
    CharRanges out;
    const auto next = [&] {
      expect(at_ < pattern_.size(), "has a class that does not end");
      if (peek() == '\\' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] == 'b') {
        at_ += 2;
        return CharRanges{{'\b', '\b'}};
      }
      if (peek() == '\\') return read_escape();
      const uint32_t one = character();
      return CharRanges{{one, one}};
    };
    while (peek() != ']' || at_ >= pattern_.size()) {
      CharRanges low = next();
      if (peek() == '-' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']') {
        ++at_;
        const CharRanges high = next();
        expect(low.size() == 1 && high.size() == 1 && low[0].first == low[0].second &&
                   high[0].first == high[0].second && low[0].first <= high[0].first,
               "has a range that is none");
        low = {{low[0].first, high[0].first}};
      }
      out.insert(out.end(), low.begin(), low.end());
    }
    ++at_;
    if (negated) out = others(out);
    expect(!tidy(out).empty(), "has a class without a character");
    return tidy(out);
  }
};

}  // namespace

GrammarBuilder::Sequence json_character(GrammarBuilder& builder, const CharRanges& ranges) {
  CharRanges plain;
  std::vector<Sequence> choices;
  for (const auto& [low, high] : tidy(ranges)) {
    for (uint32_t c = low; c <= std::min(high, kLastControl); ++c) choices.push_back(builder.text(escaped(c)));
    if (low <= '"' && '"' <= high) choices.push_back(builder.text("\\\""));
    if (low <= '\\' && '\\' <= high) choices.push_back(builder.text("\\\\"));
    for (const auto& [first, last] :
         {CharRange{kLastControl + 1, '"' - 1}, CharRange{'"' + 1, '\\' - 1}, CharRange{'\\' + 1, 0x10FFFF}})
      if (std::max(low, first) <= std::min(high, last)) plain.push_back({std::max(low, first), std::min(high, last)});
  }
  if (!tidy(plain).empty()) choices.insert(choices.begin(), builder.one_of(plain));
  return builder.either(std::move(choices));
}

GrammarBuilder::Sequence json_string_pattern(GrammarBuilder& builder, const std::string& pattern,
                                             const std::string& where) {
  return Pattern(builder, pattern, where).read();
}

}  // namespace lithe
