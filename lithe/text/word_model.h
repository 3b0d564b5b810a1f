// Models: one piece of text (a word) to ids.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lithe/text/bpe_merges.h"
#include "lithe/text/vocabulary.h"

namespace lithe {

class WordModel {
 public:
  virtual ~WordModel() = default;
  /// Appends the ids of `word`.
  virtual void encode(std::string_view word, std::vector<int32_t>& ids) const = 0;
  /// The same where merges are passed over at random. Fails, as wrong usage, for models without merges.
  virtual void sample(std::string_view word, MergeDropout& dropout, std::vector<int32_t>& ids) const;
};

struct BpeOptions {
  bool byte_level = true;         // symbols are bytes, spelt as in byte_alphabet.h; else characters
  bool ignore_merges = false;     // a word that is a token is that token
  bool byte_fallback = false;     // a character without a token becomes the tokens <0x00> ... <0xFF> of its bytes
  bool fuse_unk = false;          // unknown symbols in a row become one unk
  std::optional<int32_t> unk;     // for symbols without a token; without it they are left out
  std::string continuing_prefix;  // what symbols but a word's first begin with in the vocabulary: "##"
  std::string end_suffix;         // what a word's last symbol ends with: "</w>"
};
/// Byte-pair encoding. `vocabulary` must outlive the model.
std::unique_ptr<WordModel> make_bpe_model(const Vocabulary& vocabulary, const std::vector<Merge>& merges,
                                          const BpeOptions& options);

/// WordPiece: the longest token that starts the word, then the longest `prefix` + piece that goes on, and so forth. A
/// word that cannot be cut so, or is longer than `max_characters`, is unk. `vocabulary` must outlive the model.
std::unique_ptr<WordModel> make_wordpiece_model(const Vocabulary& vocabulary, std::string prefix,
                                                int64_t max_characters, int32_t unk);

/// Whole words; others are unk, without which they fail naming `place`. `vocabulary` must outlive the model.
std::unique_ptr<WordModel> make_word_level_model(const Vocabulary& vocabulary, std::optional<int32_t> unk,
                                                 std::string place);

struct UnigramPiece {
  std::string text;
  double score = 0;  // log probability
};
/// Unigram, Kudo 2018, arXiv:1804.10959: the way to cut a word whose pieces have the largest sum of scores; of equals
/// the one found first from the left. Ids are places in the list. Characters without a piece in a row become one unk,
/// or with `byte_fallback` the tokens <0x00> ... <0xFF> of their bytes; without unk they fail naming `place`.
std::unique_ptr<WordModel> make_unigram_model(std::vector<UnigramPiece> pieces, std::optional<int32_t> unk,
                                              bool byte_fallback, std::string place);

}  // namespace lithe
