#include "lithe/eval/text_ngrams.h"

#include <algorithm>

#include "lithe/text/unicode.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

bool is_space(uint32_t c) { return is_white_space(c) || (c >= 0x1C && c <= 0x1F); }

// Calls f(ngram, a, b) with the counts of each n-gram that either has, 0 where it has not.
template <class F>
void merge(const NgramCounts& a, const NgramCounts& b, F&& f) {
  for (size_t i = 0, j = 0; i < a.size() || j < b.size();) {
    const bool left = j == b.size() || (i < a.size() && a[i].first <= b[j].first);
    const bool right = i == a.size() || (j < b.size() && b[j].first <= a[i].first);
    f(left ? a[i].first : b[j].first, left ? a[i].second : 0, right ? b[j].second : 0);
    i += left;
    j += right;
  }
}

}  // namespace

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  bool inside = false;
  for_each_character(valid_utf8(text), [&](uint32_t c) {
    if (is_space(c)) {
      inside = false;
      return;
    }
    if (!inside) words.emplace_back();
    inside = true;
    append_utf8(words.back(), c);
  });
  return words;
}

std::string_view without_end_space(std::string_view text) {
  size_t end = 0;
  for (size_t i = 0; i < text.size();) {
    const Utf8Unit unit = utf8_unit(text.substr(i));
    i += unit.length;
    if (unit.kind != Utf8Unit::Kind::character || !is_space(unit.code_point)) end = i;
  }
  return text.substr(0, end);
}

TextUnits TextUnits::of_words(const std::vector<std::string>& words) {
  TextUnits units;
  for (const std::string& word : words) {
    units.begins_.push_back(units.text_.size());
    units.text_ += word;
    units.ends_.push_back(units.text_.size());
    units.text_ += ' ';  // no word holds one, so that unlike words never read alike
  }
  return units;
}

TextUnits TextUnits::of_characters(const std::vector<std::string>& words) {
  TextUnits units;
  for (const std::string& word : words)
    for_each_character(word, [&](uint32_t c) {
      units.begins_.push_back(units.text_.size());
      append_utf8(units.text_, c);
      units.ends_.push_back(units.text_.size());
    });
  return units;
}

NgramCounts TextUnits::ngrams(int64_t n) const {
  std::vector<std::string_view> all;
  for (int64_t i = 0; i + n <= size(); ++i)
    all.push_back(std::string_view(text_).substr(begins_[size_t(i)], ends_[size_t(i + n - 1)] - begins_[size_t(i)]));
  std::sort(all.begin(), all.end());
  NgramCounts counts;
  for (const std::string_view ngram : all) {
    if (counts.empty() || counts.back().first != ngram) counts.emplace_back(ngram, 0);
    ++counts.back().second;
  }
  return counts;
}

int64_t total_count(const NgramCounts& counts) {
  int64_t sum = 0;
  for (const auto& [ngram, count] : counts) sum += count;
  return sum;
}

int64_t shared_count(const NgramCounts& a, const NgramCounts& b) {
  int64_t sum = 0;
  merge(a, b, [&](std::string_view, int64_t left, int64_t right) { sum += std::min(left, right); });
  return sum;
}

NgramCounts larger_counts(const NgramCounts& a, const NgramCounts& b) {
  NgramCounts counts;
  merge(a, b, [&](std::string_view ngram, int64_t left, int64_t right) {
    counts.emplace_back(ngram, std::max(left, right));
  });
  return counts;
}

std::string lower_text(std::string_view text) {
  std::string out;
  for_each_character(valid_utf8(text), [&](uint32_t c) { append_lower_case(out, c); });
  return out;
}

}  // namespace lithe
