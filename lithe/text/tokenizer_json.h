// Writing tokenizer.json.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lithe/text/added_tokens.h"

namespace lithe {

/// A byte-level BPE. Tokens are spelt in the alphabet of byte_alphabet.h.
struct BpeDescription {
  std::vector<std::string> vocabulary;                      // by id
  std::vector<std::pair<std::string, std::string>> merges;  // by rank
  std::vector<AddedToken> added;
  bool words = true;  // cut text by the pattern of GPT-2 first
};
std::string byte_level_bpe_json(const BpeDescription& description);

/// BERT's WordPiece with lower-casing. `vocabulary` by id must hold [UNK]; those of `specials` that it holds are
/// special.
std::string bert_json(const std::vector<std::string>& vocabulary,
                      const std::vector<std::string>& specials = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"});

}  // namespace lithe
