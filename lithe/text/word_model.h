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
  std::vector<uint32_t> ranks;    // of the merges; empty: their places in the list
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
  int32_t id = 0;
};
struct UnigramOptions {
  std::optional<int32_t> unk;  // stands for characters without a piece, in a row one; without it they fail
  std::optional<std::array<int32_t, 256>> byte_ids;  // stand for them where all their bytes have one; -1 for none
  double unknown_score = 0;                          // log probability of such a character
  bool single_precision = false;                     // sums of scores are SentencePiece's
  std::string place;                                 // in errors
};
/// Unigram, Kudo 2018, arXiv:1804.10959: the way to cut a word whose pieces have the largest sum of scores; of equals
/// the one found first from the left.
std::unique_ptr<WordModel> make_unigram_model(std::vector<UnigramPiece> pieces, UnigramOptions options);
inline constexpr double unigram_unknown_penalty = 10;  // SentencePiece's: below the least score of a piece

}  // namespace lithe
