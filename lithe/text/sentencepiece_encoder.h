// SentencePiece's way from a text to ids: rules of normalization, spaces as U+2581, unigram or BPE over the whole text.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lithe/text/charsmap.h"
#include "lithe/text/piece_trie.h"
#include "lithe/text/sentencepiece_file.h"
#include "lithe/text/vocabulary.h"
#include "lithe/text/word_cache.h"
#include "lithe/text/word_model.h"

namespace lithe {

/// The pieces' entries by id. Fails on one that stands twice.
Vocabulary vocabulary_of(const SentencePieceFile& file, const std::string& origin);

struct ScoredMerge {
  Merge merge;
  float score;  // of the piece that it makes
};
/// Every way to make a piece of a BPE from two, the best scores first: SentencePiece merges what makes the best piece.
/// Fails where one makes a piece that is marked as unused.
std::vector<ScoredMerge> sentencepiece_merges(const SentencePieceFile& file, const Vocabulary& vocabulary,
                                              const std::string& origin);

/// Kudo and Richardson 2018, arXiv:1808.06226; ids as of its library 0.2. Thread-safe.
class SentencePieceEncoder {
 public:
  /// `vocabulary`, of the file's pieces, must outlive it. Fails on a file without <unk>, on rules that are damaged, on
  /// byte fallback without all bytes, and on a BPE whose merges make pieces marked as unused.
  SentencePieceEncoder(const SentencePieceFile& file, const Vocabulary& vocabulary, const std::string& origin);

  /// What is cut. Pieces that the user defined stay as they are; bytes that are no UTF-8 become U+FFFD each.
  std::string normalize(std::string_view text) const;
  /// Appends the ids of a normalized text.
  void encode(std::string_view normalized, std::vector<int32_t>& ids) const;
  /// The same where merges are passed over at random. Fails, as wrong usage, for unigram models.
  void sample(std::string_view normalized, MergeDropout& dropout, std::vector<int32_t>& ids) const;

  int32_t unk() const { return unk_; }
  /// What stands for a character without a piece under byte fallback: the ids of its bytes.
  const std::optional<std::array<int32_t, 256>>& byte_ids() const { return byte_ids_; }
  /// Log-probability of a unigram's piece: a user-defined one is worth as many bytes of the best normal piece.
  double log_probability(int32_t id) const;
  double least_log_probability() const { return least_; }  // of the normal pieces
  double unknown_log_probability() const { return least_ - unigram_unknown_penalty; }

 private:
  const SentencePieceFile& file_;
  const Vocabulary& vocabulary_;
  std::string space_;  // how a normalized text spells one
  std::optional<Charsmap> rules_;
  std::optional<PieceTrie> user_defined_;
  int32_t unk_ = -1;
  std::optional<std::array<int32_t, 256>> byte_ids_;
  double least_ = 0, most_ = 0;  // scores of the normal pieces
  bool by_words_ = false;        // BPE: no piece goes on behind a space within it, so that words can be cut one by one
  std::unique_ptr<WordModel> model_;
  WordEncoder encoder_;

  void make_unigram(const std::string& place);
  void make_bpe(const std::string& origin);
  Charsmap::Rule step(std::string_view text) const;
  size_t word_end(std::string_view text) const;
  std::vector<std::string_view> words(std::string_view text) const;
  template <class Encode>
  void between_user_defined(std::string_view text, std::vector<int32_t>& ids, Encode&& encode) const;
};

}  // namespace lithe
