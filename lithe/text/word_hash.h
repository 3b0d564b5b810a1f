// Hashes of words: a word to a fixed number of bits or a bucket, without a vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lithe/base/token_code.h"
#include "lithe/text/ngrams.h"
#include "lithe/text/word_model.h"

namespace lithe {

class Fields;

/// Keys of data.tokenizer for type words; what determines the hash of a word, together with the n-grams of lsh.
struct WordHashSettings {
  bool lowercase = true;
  std::string hash = "md5";   // md5 | lsh
  std::string code = "bits";  // bits | bucket
  int64_t bits = 128;
  int64_t num_buckets = 50000;
  std::string key;                   // md5
  int64_t ngram_vocab_size = 50000;  // lsh, as are the next
  int64_t ngram_max = 4;
  int64_t hash_seed = 0;

  void fields(Fields& f);
  /// Keys that this hash uses, in the order of fields().
  std::vector<std::string> used_keys() const;
  /// Fails, as wrong usage, on a value out of its range or a combination that does not exist.
  void validate() const;
  TokenCode token_code() const;
};

/// The model of these settings: a word to one code. `ngrams` is only used by lsh. Thread-safe, and remembers the codes
/// of lsh, which take up to a millisecond.
std::unique_ptr<WordModel> make_word_hash(const WordHashSettings& settings, NgramDictionary ngrams);

/// Checksum of numbers that lsh draws from hash_seed: another one means other hashes from the same settings. 0 for md5.
uint64_t hash_probe(const WordHashSettings& settings);

}  // namespace lithe
