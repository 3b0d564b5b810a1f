// How n-grams and candidates share the rows and codes that a model hashes them to.
#pragma once

#include <string>
#include <vector>

#include "lithe/data/token_store.h"
#include "lithe/model/config.h"

namespace lithe::analyze {

/// One table of hashed rows, or of codes, and what of a text falls into it.
struct HashTableUse {
  std::string part;       // "layers.1.engram", "embedding", "head"
  std::string what;       // "2-grams, hash 1"
  int64_t rows = 0;       // of the table
  int64_t distinct = 0;   // n-grams of the text that differ, or candidates
  int64_t used = 0;       // rows that some of them have
  int64_t sharing = 0;    // of those that differ, how many share their row with another
  int64_t all_alike = 0;  // of those that differ, how many share the rows of all hashes of their order with another;
                          // candidates never share all codes
};

/// The tables of mixers engram, embeddings byte_ngrams and hash_sum and head hash_codes in their order, over the
/// documents of `text` (n-grams lie within one). Empty where the model has none.
std::vector<HashTableUse> hash_table_uses(const ModelConfig& config, const TokenStore& text);

}  // namespace lithe::analyze
