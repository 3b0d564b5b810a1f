// Writing tokenizer.json.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lithe/base/json.h"
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

/// What stands under "model" for a BPE. `unk`: the token of what has no other, one for many in a row; empty: none.
std::string bpe_model_json(const BpeDescription& description, const std::string& unk, bool byte_fallback);

/// A SentencePiece model, unigram or BPE, as Hugging Face's library reads it, with the same ids for the same texts. It
/// differs where that library does: added tokens are found before the text is normalized, so that spaces beside a
/// user-defined piece may go with them; of pairs that make one piece and overlap, the first in the list is merged, not
/// the first in the text. Fails as parse_sentencepiece does.
std::string sentencepiece_json(const std::string& model, const std::string& origin);

/// The whole file. `model`: JSON text.
std::string tokenizer_document(const std::vector<AddedToken>& added, const Json& normalizer, const Json& pre_tokenizer,
                               const Json& post_processor, const Json& decoder, const std::string& model);

/// BERT's WordPiece with lower-casing. `vocabulary` by id must hold [UNK]; those of `specials` that it holds are
/// special.
std::string bert_json(const std::vector<std::string>& vocabulary,
                      const std::vector<std::string>& specials = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"});

}  // namespace lithe
