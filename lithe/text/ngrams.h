// Character n-grams of words, for hashes that keep likeness.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lithe/text/word_table.h"

namespace lithe {

/// How often an n-gram stands in a word.
struct NgramCount {
  int32_t id;
  int32_t count;
  bool operator==(const NgramCount&) const = default;
};

/// N-grams of 1 to `longest` characters and their ids: the place in the list.
class NgramDictionary {
 public:
  NgramDictionary() = default;
  /// Fails on an entry that stands twice, is empty, no UTF-8, or longer than `longest` characters.
  NgramDictionary(int64_t longest, std::vector<std::string> ngrams);

  int64_t longest() const { return longest_; }
  const std::vector<std::string>& ngrams() const { return ngrams_; }

  /// The known n-grams of a word with their counts, by id; unknown ones are left out. Nothing marks the word's ends.
  std::vector<NgramCount> counts(std::string_view word) const;

 private:
  int64_t longest_ = 0;
  std::vector<std::string> ngrams_;
  WordTable<int32_t> ids_;
};

/// The `size` most frequent n-grams of a corpus, given how often each word occurs in it; of equals those first whose
/// bytes are smaller. N-grams with bytes that are no UTF-8 are left out.
NgramDictionary learn_ngrams(const WordTable<int64_t>& words, int64_t longest, int64_t size);

}  // namespace lithe
