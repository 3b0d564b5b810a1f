#include "lithe/text/pattern_dialect.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <map>
#include <vector>

#include "lithe/base/error.h"

namespace lithe {
namespace {

// PCRE2's \s also takes U+180E, which left White_Space in Unicode 6.3.
constexpr std::string_view space =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view no_space =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";

struct Newer {
  uint32_t first, last;
  const char* category;
};
// Characters of Unicode 15 and 16.
constexpr Newer newer[] = {
    {0x897, 0x897, "Mn"},     {0xCF3, 0xCF3, "Mc"},     {0xECE, 0xECE, "Mn"},     {0x1B4E, 0x1B4F, "Po"},
    {0x1B7F, 0x1B7F, "Po"},   {0x1C89, 0x1C89, "Lu"},   {0x1C8A, 0x1C8A, "Ll"},   {0x2427, 0x2429, "So"},
    {0x2FFC, 0x2FFF, "So"},   {0x31E4, 0x31E5, "So"},   {0x31EF, 0x31EF, "So"},   {0xA7CB, 0xA7CC, "Lu"},
    {0xA7CD, 0xA7CD, "Ll"},   {0xA7DA, 0xA7DA, "Lu"},   {0xA7DB, 0xA7DB, "Ll"},   {0xA7DC, 0xA7DC, "Lu"},
    {0x105C0, 0x105F3, "Lo"}, {0x10D40, 0x10D49, "Nd"}, {0x10D4A, 0x10D4D, "Lo"}, {0x10D4E, 0x10D4E, "Lm"},
    {0x10D4F, 0x10D4F, "Lo"}, {0x10D50, 0x10D65, "Lu"}, {0x10D69, 0x10D6D, "Mn"}, {0x10D6E, 0x10D6E, "Pd"},
    {0x10D6F, 0x10D6F, "Lm"}, {0x10D70, 0x10D85, "Ll"}, {0x10D8E, 0x10D8F, "Sm"}, {0x10EC2, 0x10EC4, "Lo"},
    {0x10EFC, 0x10EFF, "Mn"}, {0x1123F, 0x11240, "Lo"}, {0x11241, 0x11241, "Mn"}, {0x11380, 0x11389, "Lo"},
    {0x1138B, 0x1138B, "Lo"}, {0x1138E, 0x1138E, "Lo"}, {0x11390, 0x113B5, "Lo"}, {0x113B7, 0x113B7, "Lo"},
    {0x113B8, 0x113BA, "Mc"}, {0x113BB, 0x113C0, "Mn"}, {0x113C2, 0x113C2, "Mc"}, {0x113C5, 0x113C5, "Mc"},
    {0x113C7, 0x113CA, "Mc"}, {0x113CC, 0x113CD, "Mc"}, {0x113CE, 0x113CE, "Mn"}, {0x113CF, 0x113CF, "Mc"},
    {0x113D0, 0x113D0, "Mn"}, {0x113D1, 0x113D1, "Lo"}, {0x113D2, 0x113D2, "Mn"}, {0x113D3, 0x113D3, "Lo"},
    {0x113D4, 0x113D5, "Po"}, {0x113D7, 0x113D8, "Po"}, {0x113E1, 0x113E2, "Mn"}, {0x116D0, 0x116E3, "Nd"},
    {0x11B00, 0x11B09, "Po"}, {0x11BC0, 0x11BE0, "Lo"}, {0x11BE1, 0x11BE1, "Po"}, {0x11BF0, 0x11BF9, "Nd"},
    {0x11F00, 0x11F01, "Mn"}, {0x11F02, 0x11F02, "Lo"}, {0x11F03, 0x11F03, "Mc"}, {0x11F04, 0x11F10, "Lo"},
    {0x11F12, 0x11F33, "Lo"}, {0x11F34, 0x11F35, "Mc"}, {0x11F36, 0x11F3A, "Mn"}, {0x11F3E, 0x11F3F, "Mc"},
    {0x11F40, 0x11F40, "Mn"}, {0x11F41, 0x11F41, "Mc"}, {0x11F42, 0x11F42, "Mn"}, {0x11F43, 0x11F4F, "Po"},
    {0x11F50, 0x11F59, "Nd"}, {0x11F5A, 0x11F5A, "Mn"}, {0x1342F, 0x1342F, "Lo"}, {0x13439, 0x1343F, "Cf"},
    {0x13440, 0x13440, "Mn"}, {0x13441, 0x13446, "Lo"}, {0x13447, 0x13455, "Mn"}, {0x13460, 0x143FA, "Lo"},
    {0x16100, 0x1611D, "Lo"}, {0x1611E, 0x16129, "Mn"}, {0x1612A, 0x1612C, "Mc"}, {0x1612D, 0x1612F, "Mn"},
    {0x16130, 0x16139, "Nd"}, {0x16D40, 0x16D42, "Lm"}, {0x16D43, 0x16D6A, "Lo"}, {0x16D6B, 0x16D6C, "Lm"},
    {0x16D6D, 0x16D6F, "Po"}, {0x16D70, 0x16D79, "Nd"}, {0x18CFF, 0x18CFF, "Lo"}, {0x1B132, 0x1B132, "Lo"},
    {0x1B155, 0x1B155, "Lo"}, {0x1CC00, 0x1CCEF, "So"}, {0x1CCF0, 0x1CCF9, "Nd"}, {0x1CD00, 0x1CEB3, "So"},
    {0x1D2C0, 0x1D2D3, "No"}, {0x1DF25, 0x1DF2A, "Ll"}, {0x1E030, 0x1E06D, "Lm"}, {0x1E08F, 0x1E08F, "Mn"},
    {0x1E4D0, 0x1E4EA, "Lo"}, {0x1E4EB, 0x1E4EB, "Lm"}, {0x1E4EC, 0x1E4EF, "Mn"}, {0x1E4F0, 0x1E4F9, "Nd"},
    {0x1E5D0, 0x1E5ED, "Lo"}, {0x1E5EE, 0x1E5EF, "Mn"}, {0x1E5F0, 0x1E5F0, "Lo"}, {0x1E5F1, 0x1E5FA, "Nd"},
    {0x1E5FF, 0x1E5FF, "Po"}, {0x1F6DC, 0x1F6DC, "So"}, {0x1F774, 0x1F776, "So"}, {0x1F77B, 0x1F77F, "So"},
    {0x1F7D9, 0x1F7D9, "So"}, {0x1F8B2, 0x1F8BB, "So"}, {0x1F8C0, 0x1F8C1, "So"}, {0x1FA75, 0x1FA77, "So"},
    {0x1FA87, 0x1FA89, "So"}, {0x1FA8F, 0x1FA8F, "So"}, {0x1FAAD, 0x1FAAF, "So"}, {0x1FABB, 0x1FABF, "So"},
    {0x1FAC6, 0x1FAC6, "So"}, {0x1FACE, 0x1FACF, "So"}, {0x1FADA, 0x1FADC, "So"}, {0x1FADF, 0x1FADF, "So"},
    {0x1FAE8, 0x1FAE9, "So"}, {0x1FAF7, 0x1FAF8, "So"}, {0x1FBCB, 0x1FBEF, "So"}, {0x2B739, 0x2B739, "Lo"},
    {0x2EBF0, 0x2EE5D, "Lo"}, {0x31350, 0x323AF, "Lo"},
};

constexpr Newer newer_of_scripts[] = {
    {0x1C89, 0x1C8A, "Cyrillic"},   {0x1E030, 0x1E06D, "Cyrillic"}, {0x1E08F, 0x1E08F, "Cyrillic"},
    {0x2B739, 0x2B739, "Han"},      {0x2EBF0, 0x2EE5D, "Han"},      {0x31350, 0x323AF, "Han"},
    {0x1B132, 0x1B132, "Hiragana"}, {0x1B155, 0x1B155, "Katakana"}, {0xA7CB, 0xA7CD, "Latin"},
    {0xA7DA, 0xA7DC, "Latin"},      {0x1DF25, 0x1DF2A, "Latin"},    {0x897, 0x897, "Arabic"},
    {0x10EC2, 0x10EC4, "Arabic"},   {0x10EFC, 0x10EFF, "Arabic"},   {0x11B00, 0x11B09, "Devanagari"},
    {0xCF3, 0xCF3, "Kannada"},      {0xECE, 0xECE, "Lao"},          {0x116D0, 0x116E3, "Myanmar"}};

std::string members(const Newer& range) { return fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", range.first, range.last); }

/// `\p{category}` with its newer characters, as members of a set.
std::string property(std::string_view category) {
  std::string out = cat("\\p{", category, "}");
  for (const Newer& range : newer)
    if (std::string_view(range.category).starts_with(category)) out += members(range);
  return out;
}
/// The same of a script, without the scripts that extend it.
std::string script(std::string_view name) {
  std::string out = cat("\\p{sc:", name, "}");
  for (const Newer& range : newer_of_scripts)
    if (range.category == name) out += members(range);
  return out;
}

std::string alphabetic() {
  return R"(\p{Alphabetic}\x{363}-\x{36f}\x{897}\x{c04}\x{cf3}\x{f82}\x{f83}\x{1dd3}-\x{1de6}\x{10d69}\x{10efc})"
         R"(\x{11080}\x{11081}\x{11241}\x{113b8}-\x{113c0}\x{113c2}\x{113c5}\x{113c7}-\x{113ca}\x{113cc}\x{113cd})"
         R"(\x{11f00}\x{11f01}\x{11f03}\x{11f34}-\x{11f3a}\x{11f3e}-\x{11f40}\x{1611e}-\x{1612e}\x{1e08f})" +
         property("L");
}
/// \w within a set and [[:word:]]. By itself \w also takes powers and fractions of Latin-1.
std::string word() { return R"(\p{Alphabetic})" + property("L") + property("M") + property("Nd") + R"(\p{Pc})"; }
std::string backslash_word() { return word() + R"(\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})"; }

bool compiles(const std::string& expression) {
  int error = 0;
  size_t at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expression.data()), expression.size(),
                                   PCRE2_UTF | PCRE2_UCP, &error, &at, nullptr);
  pcre2_code_free(code);
  return code != nullptr;
}

class Translation {
 public:
  Translation(std::string_view in, std::string_view origin) : in_(in), origin_(origin) {}

  std::string operator()() {
    while (at_ < in_.size()) in_set_ ? set_member() : element();
    return std::move(out_);
  }

 private:
  std::string_view in_, origin_;
  size_t at_ = 0;
  std::string out_;
  bool in_set_ = false, negated_ = false;  // the set starts with ^
  size_t set_begin_ = 0;                   // of out_
  std::vector<std::string> without_;       // members of sets whose complements, \W and \P{L}, are in the set

  [[noreturn]] void refuse(std::string_view what) const {
    fail("tokenizer", origin_, ": expression '", in_, "': ", what, " is not supported");
  }
  char next(size_t ahead = 1) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }

  void element() {
    const char c = in_[at_];
    if (c == '\\' && next() != '\0') return escape();
    if (c == '(' && next() == '*') refuse("a verb '(*'");
    out_ += c;
    ++at_;
    if (c != '[') return;
    in_set_ = true;
    without_.clear();
    negated_ = at_ < in_.size() && in_[at_] == '^';
    if (negated_) out_ += in_[at_++];
    set_begin_ = out_.size();
    if (at_ < in_.size() && in_[at_] == ']') refuse("']' as the first member of a set");
  }

  void set_member() {
    const char c = in_[at_];
    if (c == '\\' && next() != '\0') return escape();
    if (c == '[' && next() == ':') return named_set();
    if (c == '[') refuse("a set within a set");
    if (c == '&' && next() == '&') refuse("an intersection of sets");
    out_ += c;
    ++at_;
    if (c == ']') end_set();
  }

  /// Complements among a set's members stand beside it, as they are of several properties.
  void end_set() {
    in_set_ = false;
    if (without_.empty()) return;
    const std::string rest = out_.substr(set_begin_, out_.size() - 1 - set_begin_);
    out_.resize(set_begin_ - (negated_ ? 2 : 1));
    out_ += "(?:";
    if (!rest.empty()) out_ += negated_ ? cat("(?![", rest, "])") : cat('[', rest, "]|");
    for (size_t i = 0; i < without_.size(); ++i) {
      const bool last = i + 1 == without_.size();
      out_ += negated_ ? cat(last ? "[" : "(?=[", without_[i], last ? "]" : "])")
                       : cat("[^", without_[i], last ? "]" : "]|");
    }
    out_ += ')';
  }

  void named_set() {
    const size_t close = in_.find(":]", at_ + 2);
    if (close == in_.npos) refuse("an unclosed '[:'");
    const std::string_view name = in_.substr(at_ + 2, close - at_ - 2);
    static const std::map<std::string_view, std::string> sets = {
        {"alnum", alphabetic() + property("Nd")},
        {"alpha", alphabetic()},
        {"ascii", R"(\x{0}-\x{7f})"},
        {"cntrl", R"(\p{Cc})"},
        {"digit", property("Nd")},
        {"lower", R"(\p{Lowercase}\x{10fc}\x{a7f2}-\x{a7f4}\x{ab69}\x{1e030}-\x{1e06d})" + property("Ll")},
        {"punct", property("P") + property("S")},
        {"space", std::string(space)},
        {"upper", R"(\p{Uppercase})" + property("Lu")},
        {"word", word()},
        {"xdigit", "0-9A-Fa-f"}};
    const auto found = sets.find(name);
    if (found == sets.end()) refuse(cat("[:", name, ":]"));
    out_ += found->second;
    at_ = close + 2;
  }

  void escape() {
    const char c = next();
    if (c == 'h' || c == 'H' || c == 'C' || c == 'K') refuse(std::string("\\") + c);
    if (c == 'p' || c == 'P') return property_escape();
    at_ += 2;
    if (c == 's' || c == 'S') return set(c == 's' ? space : no_space, false);
    if (c == 'd' || c == 'D') return set(property("Nd"), c == 'D');
    if (c == 'w' || c == 'W') return set(in_set_ ? word() : backslash_word(), c == 'W');
    if ((c == 'b' || c == 'B') && !in_set_) {
      const std::string words = backslash_word();
      const auto side = [&](bool before, bool after) {
        return cat(before ? "(?<=[" : "(?<![", words, "])", after ? "(?=[" : "(?![", words, "])");
      };
      out_ += cat("(?:", side(true, c == 'B'), '|', side(false, c == 'b'), ')');
    } else {
      out_ += {'\\', c};
    }
  }

  /// Members of a set, or a set of their own.
  void set(std::string_view members, bool negated) {
    if (in_set_ && negated)
      without_.emplace_back(members);
    else
      out_ += in_set_ ? std::string(members) : cat('[', negated ? "^" : "", members, ']');
  }

  /// \p{Name}, \P{Name}, \p{^Name}: Name is a category, a script (without the scripts that extend it) or else.
  void property_escape() {
    const size_t close = in_.find('}', at_);
    if (next(2) != '{' || close == in_.npos) refuse("a property without braces");
    std::string_view name = in_.substr(at_ + 3, close - at_ - 3);
    bool negated = next() == 'P';
    at_ = close + 1;
    if (name.starts_with('^')) negated = !negated, name.remove_prefix(1);
    const bool is_script = name.size() > 2 && compiles(script(name));
    set(is_script ? script(name) : property(name), negated);
  }
};

}  // namespace

std::string pcre_expression(std::string_view expression, std::string_view origin) {
  return Translation(expression, origin)();
}

}  // namespace lithe
