// Regular expressions of tokenizers: PCRE2 with just-in-time compilation, in the dialect of Hugging Face.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lithe {

/// A compiled regular expression over UTF-8. Thread-safe, cheap to copy.
///
/// Tokenizer files are written for Oniguruma, and ours are read as it reads them: pattern_dialect.h.
class Pattern {
 public:
  /// Fails on an expression that is wrong or refused, with `origin` in the error.
  Pattern(std::string_view expression, std::string_view origin);
  /// The literal string.
  static Pattern literal(std::string_view text, std::string_view origin);

  /// As Python's `re` reads the expression, as far as PCRE2 does.
  static Pattern python(std::string_view expression, std::string_view origin);

  /// The first match at or after `from` (a character's start) in `text`, which must be valid UTF-8. Fails when the
  /// expression backtracks beyond reason.
  bool find(std::string_view text, size_t from, size_t& begin, size_t& end) const;

  struct Span {
    size_t begin, end;  // npos, both: no part of the match
  };
  /// The same with what its groups matched, the whole match first.
  bool find(std::string_view text, size_t from, std::vector<Span>& groups) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
  Pattern(std::string_view expression, const std::string& translated, std::string_view origin);
};

}  // namespace lithe
