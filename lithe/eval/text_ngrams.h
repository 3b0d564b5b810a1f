// The n-grams of a text, of words or of characters, as metrics of texts count them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lithe {

// White space is what Python's str.split takes for it: the Unicode property and U+001C to U+001F. What is no UTF-8
// reads as U+FFFD.

/// The words between white space.
std::vector<std::string> split_words(std::string_view text);
/// `text` without the white space at its end.
std::string_view without_end_space(std::string_view text);

/// How often each n-gram occurs, in the order of their bytes.
using NgramCounts = std::vector<std::pair<std::string_view, int64_t>>;

/// A text as units that follow each other.
class TextUnits {
 public:
  /// Words as units.
  static TextUnits of_words(const std::vector<std::string>& words);
  /// The characters of words as units, across words.
  static TextUnits of_characters(const std::vector<std::string>& words);

  int64_t size() const { return int64_t(begins_.size()); }
  /// The n-grams, views into this object.
  NgramCounts ngrams(int64_t n) const;

 private:
  std::string text_;
  std::vector<size_t> begins_, ends_;
};

/// The sum of all counts.
int64_t total_count(const NgramCounts& counts);
/// The sum of the smaller counts of what both have.
int64_t shared_count(const NgramCounts& a, const NgramCounts& b);
/// The larger counts of what either has.
NgramCounts larger_counts(const NgramCounts& a, const NgramCounts& b);

/// `text` in lower case, character by character as Python's str.lower has it, but that the sigma at the end of a word
/// is like any other.
std::string lower_text(std::string_view text);

}  // namespace lithe
