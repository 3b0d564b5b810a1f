#include "lithe/text/ngrams.h"

#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

/// Calls f(n-gram) for every n-gram of 1 to `longest` characters, as often as it occurs.
template <class F>
void for_each_ngram(std::string_view word, int64_t longest, F&& f) {
  thread_local std::vector<size_t> starts;  // of each character, and the end
  starts.clear();
  for (size_t at = 0; at < word.size(); at += utf8_unit(word.substr(at)).length) starts.push_back(at);
  const size_t characters = starts.size();
  starts.push_back(word.size());
  for (size_t n = 1; n <= size_t(longest); ++n)
    for (size_t i = 0; i + n <= characters; ++i) f(word.substr(starts[i], starts[i + n] - starts[i]));
}

}  // namespace

// spec: hash.ngram | tokenizer | counts of a word's character n-grams, of the most frequent in the corpus | TH 2.3.3
NgramDictionary::NgramDictionary(int64_t longest, std::vector<std::string> ngrams)
    : longest_(longest), ngrams_(std::move(ngrams)) {
  for (size_t id = 0; id < ngrams_.size(); ++id) {
    const std::string& ngram = ngrams_[id];
    check(is_valid_utf8(ngram), "tokenizer", "n-gram ", id, " is not UTF-8");
    int64_t characters = 0;
    for_each_character(ngram, [&](uint32_t) { ++characters; });
    check(characters >= 1 && characters <= longest, "tokenizer", "n-gram ", id, " '", ngram, "' must have 1 to ",
          longest, " characters, got ", characters);
    check(!ids_.find(ngram), "tokenizer", "n-gram ", id, " '", ngram, "' stands twice");
    ids_.insert(ngram) = int32_t(id);
  }
}

std::vector<NgramCount> NgramDictionary::counts(std::string_view word) const {
  std::vector<int32_t> ids;
  for_each_ngram(word, longest_, [&](std::string_view ngram) {
    if (const int32_t* id = ids_.find(ngram)) ids.push_back(*id);
  });
  std::sort(ids.begin(), ids.end());
  std::vector<NgramCount> counts;
  for (const int32_t id : ids) {
    if (counts.empty() || counts.back().id != id) counts.push_back({id, 0});
    ++counts.back().count;
  }
  return counts;
}

NgramDictionary learn_ngrams(const WordTable<int64_t>& words, int64_t longest, int64_t size) {
  WordTable<int64_t> counts;
  for (size_t w = 0; w < words.size(); ++w)
    for_each_ngram(words.word(w), longest, [&](std::string_view ngram) { counts.insert(ngram) += words.value(w); });
  std::vector<size_t> order;
  for (size_t i = 0; i < counts.size(); ++i)
    if (is_valid_utf8(counts.word(i))) order.push_back(i);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    if (counts.value(a) != counts.value(b)) return counts.value(a) > counts.value(b);
    return counts.word(a) < counts.word(b);
  });
  order.resize(std::min(order.size(), size_t(size)));
  std::vector<std::string> ngrams;
  for (const size_t i : order) ngrams.emplace_back(counts.word(i));
  return {longest, std::move(ngrams)};
}

}  // namespace lithe
