// How often words occur, counted by threads.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "lithe/base/threads.h"
#include "lithe/text/word_table.h"

namespace lithe {

class WordCounter {
 public:
  void add(std::span<const std::string_view> words) {
    if (counts_.size() < size_t(threads())) counts_.resize(size_t(threads()));
    parallel_for(int64_t(words.size()), 4096, [&](int64_t begin, int64_t end, int thread) {
      for (int64_t i = begin; i < end; ++i) ++counts_[size_t(thread)].insert(words[size_t(i)]);
    });
  }
  /// All counts. The order of the words depends on the threads.
  const WordTable<int64_t>& total() {
    if (counts_.empty()) counts_.resize(1);
    for (size_t t = 1; t < counts_.size(); ++t) {
      for (size_t w = 0; w < counts_[t].size(); ++w) counts_[0].insert(counts_[t].word(w)) += counts_[t].value(w);
      counts_[t].clear();
    }
    return counts_[0];
  }

 private:
  std::vector<WordTable<int64_t>> counts_;  // one a thread
};

}  // namespace lithe
