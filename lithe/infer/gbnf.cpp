#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/infer/grammar.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

constexpr size_t kMostGrammarBytes = size_t(1) << 20;
constexpr int kDeepestGroup = 200;  // groups within groups

class GbnfReader {
 public:
  explicit GbnfReader(std::string_view source) : source_(source) {
    check_usage(source.size() <= kMostGrammarBytes, "grammar", "the grammar has ", source.size(), " bytes, at most ",
                kMostGrammarBytes, " are read");
    check_usage(is_valid_utf8(source), "grammar", "the grammar is no UTF-8");
  }

  Grammar read() {
    for (skip_space(true); at_ < source_.size(); skip_space(true)) read_rule();
    for (const auto& [name, rule] : rules_)
      check_usage(rule.written, "grammar", "line ", rule.line, ": no rule is named '", name, "'");
    const auto root = rules_.find("root");
    check_usage(root != rules_.end(), "grammar", "there is no rule 'root', with which every text begins");
    return builder_.finish(root->second.id);
  }

 private:
  struct Named {
    int32_t id;
    bool written;
    size_t line;
  };
  using Sequence = GrammarBuilder::Sequence;
  std::string_view source_;
  size_t at_ = 0;
  GrammarBuilder builder_{"grammar"};
  std::map<std::string, Named> rules_;

  size_t line() const { return 1 + size_t(std::count(source_.begin(), source_.begin() + long(at_), '\n')); }
  char peek() const { return at_ < source_.size() ? source_[at_] : '\0'; }
  bool is_name() const {
    const char c = peek();
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
  }
  template <class... What>
  void expect(bool good, const What&... what) const {
    check_usage(good, "grammar", "line ", line(), ": ", what...);
  }
  std::string shown() const {
    return at_ < source_.size() ? cat("'", source_.substr(at_, utf8_unit(source_.substr(at_)).length), "'") : "the end";
  }

  void skip_space(bool lines) {
    while (at_ < source_.size()) {
      const char c = source_[at_];
      if (c == '#')
        while (at_ < source_.size() && source_[at_] != '\n') ++at_;
      else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r')))
        ++at_;
      else
        return;
    }
  }
  std::string name() {
    const size_t begin = at_;
    while (is_name()) ++at_;
    expect(at_ > begin, "a name of a rule was expected, not ", shown());
    return std::string(source_.substr(begin, at_ - begin));
  }
  Named& rule_named(const std::string& name) {
    const auto [at, added] = rules_.try_emplace(name, Named{0, false, line()});
    if (added) at->second.id = builder_.add_rule(name);
    return at->second;
  }

  void read_rule() {
    const std::string called = name();
    Named& rule = rule_named(called);
    expect(!rule.written, "rule '", called, "' is written twice");
    rule.written = true;
    skip_space(false);
    expect(source_.substr(at_, 3) == "::=", "'::=' was expected behind '", called, "', not ", shown());
    at_ += 3;
    builder_.within(rule.id);
    std::vector<Sequence> choices = read_choices(false, 0);
    builder_.set(rule.id, std::move(choices));
    expect(at_ == source_.size() || peek() == '\n' || peek() == '\r', "unexpected ", shown());
  }
  std::vector<Sequence> read_choices(bool lines, int depth) {
    expect(depth < kDeepestGroup, "groups stand ", depth, " deep within each other");
    std::vector<Sequence> out;
    do {
      if (!out.empty()) ++at_;  // |
      skip_space(true);
      out.push_back(read_sequence(lines, depth));
    } while (peek() == '|');
    return out;
  }
  Sequence read_sequence(bool lines, int depth) {
    Sequence out;
    while (at_ < source_.size()) {
      Sequence one;
      const char c = peek();
      if (c == '"')
        one = read_text();
      else if (c == '[')
        one = read_class();
      else if (c == '.')
        ++at_, one = builder_.one_of(others({}));
      else if (c == '(')
        one = read_group(depth);
      else if (is_name())
        one = read_call();
      else
        break;
      one = read_repeats(std::move(one));
      out.insert(out.end(), one.begin(), one.end());
      skip_space(lines);
    }
    return out;
  }

  Sequence read_call() { return GrammarBuilder::call(rule_named(name()).id); }
  Sequence read_group(int depth) {
    ++at_;
    std::vector<Sequence> choices = read_choices(true, depth + 1);
    expect(peek() == ')', "')' was expected, not ", shown());
    ++at_;
    return builder_.either(std::move(choices));
  }

  int64_t number() {
    int64_t out = 0;
    const size_t begin = at_;
    for (; peek() >= '0' && peek() <= '9' && at_ - begin < 9; ++at_) out = 10 * out + (peek() - '0');
    expect(at_ > begin, "a number was expected, not ", shown());
    return out;
  }
  Sequence read_repeats(Sequence x) {
    for (skip_space(false);; skip_space(false)) {
      const char c = peek();
      if (c == '*') {
        ++at_, x = builder_.repeat(x, 0, {});
      } else if (c == '+') {
        ++at_, x = builder_.repeat(x, 1, {});
      } else if (c == '?') {
        ++at_, x = builder_.optional(std::move(x));
      } else if (c == '{') {
        ++at_;
        skip_space(false);
        const int64_t least = number();
        std::optional<int64_t> most = least;
        skip_space(false);
        if (peek() == ',') {
          ++at_;
          skip_space(false);
          most.reset();
          if (peek() != '}') most = number();
          skip_space(false);
        }
        expect(peek() == '}', "'}' was expected, not ", shown());
        ++at_;
        x = builder_.repeat(x, least, most);
      } else {
        return x;
      }
    }
  }

  uint32_t read_character() {
    expect(at_ < source_.size() && peek() != '\n', "a text or a class does not end on its line");
    if (peek() != '\\') {
      const Utf8Unit unit = utf8_unit(source_.substr(at_));
      at_ += unit.length;
      return unit.code_point;
    }
    ++at_;
    const char c = peek();
    ++at_;
    switch (c) {
      case 'n': return '\n';
      case 't': return '\t';
      case 'r': return '\r';
      case 'x': return hex(2);
      case 'u': return hex(4);
      case 'U': return hex(8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^': return uint32_t(c);
      default:
        --at_;
        expect(false, "'\\' stands before ", shown(), R"(, known are \n \t \r \xHH \uHHHH \\ \" \[ \] \- \^)");
    }
    return 0;
  }
  uint32_t hex(int digits) {
    uint32_t out = 0;
    for (int i = 0; i < digits; ++i, ++at_) {
      const char c = peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      expect(digit >= 0, digits, " hexadecimal digits were expected, not ", shown());
      out = 16 * out + uint32_t(digit);
    }
    expect(out <= 0x10FFFF && (out < 0xD800 || out > 0xDFFF), "no character has this number");
    return out;
  }
  Sequence read_text() {
    ++at_;
    std::string text;
    while (peek() != '"') append_utf8(text, read_character());
    ++at_;
    return builder_.text(text);
  }
  Sequence read_class() {
    ++at_;
    const bool negated = peek() == '^';
    if (negated) ++at_;
    CharRanges ranges;
    while (peek() != ']') {
      const uint32_t low = read_character();
      uint32_t high = low;
      if (peek() == '-' && at_ + 1 < source_.size() && source_[at_ + 1] != ']') {
        ++at_;
        high = read_character();
        expect(low <= high, "a range of a class ends before it begins");
      }
      ranges.push_back({low, high});
    }
    ++at_;
    return builder_.one_of(negated ? others(ranges) : ranges);
  }
};

}  // namespace

Grammar parse_gbnf(std::string_view source) { return GbnfReader(source).read(); }

}  // namespace lithe
