// What a hash of words makes of a list of words: which share a code, and which are near.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lithe/text/tokenizer.h"

namespace lithe {

/// How words share codes.
struct WordCollisions {
  int64_t words = 0;                             // distinct ones given
  int64_t codes = 0;                             // distinct codes, or buckets, that they hit
  int64_t pairs = 0;                             // of words with one code
  int64_t colliding = 0;                         // words that share their code
  std::vector<std::string> largest;              // the words of the code that most of them have, of equals the first
  std::vector<std::vector<std::string>> shared;  // the words of each code of several, most words first
};

/// Counts over `words` (see distinct_words of code_tokenizer.h). Fails for a tokenizer that is not of type words and on
/// a string that it does not take as one word.
WordCollisions word_collisions(const Tokenizer& tokenizer, std::span<const std::string> words);

struct WordNeighbour {
  std::string word;
  int64_t distance;  // Hamming distance of the bits; 0 for buckets
};

/// The `count` words nearest to `word` by Hamming distance, in the order of the list where it is equal; with buckets
/// the first `count` in its bucket. The word itself is left out. Fails as word_collisions does.
std::vector<WordNeighbour> nearest_words(const Tokenizer& tokenizer, std::string_view word,
                                         std::span<const std::string> words, int64_t count);

}  // namespace lithe
