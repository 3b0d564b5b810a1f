// Unigram: of all ways to cut a word into pieces the one of largest summed score.
#include <algorithm>
#include <type_traits>

#include "lithe/base/error.h"
#include "lithe/text/piece_trie.h"
#include "lithe/text/utf8.h"
#include "lithe/text/word_model.h"

namespace lithe {
namespace {

constexpr int32_t no_piece = -1;

/// Sums of scores are of type Score.
template <class Score>
class UnigramModel final : public WordModel {
 public:
  UnigramModel(std::vector<UnigramPiece> pieces, UnigramOptions options)
      : pieces_(std::move(pieces)), trie_(texts(pieces_)), o_(std::move(options)) {}

  void encode(std::string_view word, std::vector<int32_t>& ids) const override {
    for (Score sum = 0; !word.empty();) word.remove_prefix(encode_part(word, sum, ids));
  }

 private:
  static constexpr bool of_sentencepiece = std::is_same_v<Score, float>;
  static constexpr int32_t unreached = -2;
  static constexpr size_t least_part = 4096;       // bytes
  static constexpr float most_negative = -100000;  // sums below it begin anew, as SentencePiece's do
  struct Best {
    Score score = 0;
    uint32_t begin = 0;
    int32_t piece = unreached;
  };
  std::vector<UnigramPiece> pieces_;
  PieceTrie trie_;
  UnigramOptions o_;

  /// Cuts `text` up to a place that no piece goes over, so that a text of any length takes little memory. `sum`: of the
  /// scores up to there. Returns how far it came.
  size_t encode_part(std::string_view text, Score& sum, std::vector<int32_t>& ids) const {
    thread_local std::vector<Best> best;
    best.assign(1, {.score = sum});
    size_t at = 0;
    while (at < text.size() && !(at >= least_part && at + 1 == best.size() && !unknown(best[at].piece))) {
      const size_t character = std::min(utf8_unit(text.substr(at)).length, text.size() - at);
      if (of_sentencepiece && best[at].score < most_negative)
        for (size_t i = best.size(); i-- > at;) best[i].score -= best[at].score;
      const Score so_far = best[at].score;
      bool single = false;
      const auto reach = [&](size_t end, Score score, int32_t piece) {
        if (end >= best.size()) best.resize(end + 1);
        if (best[end].piece == unreached || score > best[end].score) best[end] = {score, uint32_t(at), piece};
      };
      trie_.prefixes(text.substr(at), [&](size_t length, int32_t piece) {
        reach(at + length, so_far + Score(pieces_[size_t(piece)].score), piece);
        single = single || length == character;
      });
      if (!single) reach(at + character, so_far + Score(o_.unknown_score), no_piece);
      at += character;
    }
    thread_local std::vector<std::pair<uint32_t, int32_t>> path;  // the begins and pieces, from the end
    path.clear();
    for (size_t end = at; end > 0; end = best[end].begin) path.emplace_back(best[end].begin, best[end].piece);
    std::reverse(path.begin(), path.end());
    for (size_t i = 0; i < path.size();) {
      if (!unknown(path[i].second)) {
        ids.push_back(pieces_[size_t(path[i++].second)].id);
        continue;
      }
      const size_t begin = path[i].first;
      while (i < path.size() && unknown(path[i].second)) ++i;
      unknown(text.substr(begin, (i < path.size() ? path[i].first : at) - begin), ids);
    }
    sum = best[at].score;
    return at;
  }

  static std::vector<std::string_view> texts(const std::vector<UnigramPiece>& pieces) {
    std::vector<std::string_view> out;
    out.reserve(pieces.size());
    for (const UnigramPiece& piece : pieces) out.push_back(piece.text);
    return out;
  }

  // Not known as a piece; in Hugging Face's library neither is the text of the unknown piece itself.
  bool unknown(int32_t piece) const {
    return piece == no_piece || (!of_sentencepiece && o_.unk && pieces_[size_t(piece)].id == *o_.unk);
  }

  // Characters without a piece, in a row, which that library looks up as one text.
  void unknown(std::string_view text, std::vector<int32_t>& ids) const {
    int32_t whole = no_piece;
    if (!of_sentencepiece)
      trie_.prefixes(text, [&](size_t length, int32_t piece) { whole = length == text.size() ? piece : whole; });
    if (whole != no_piece) return ids.push_back(pieces_[size_t(whole)].id);
    if (o_.byte_ids && std::all_of(text.begin(), text.end(), [&](char c) { return (*o_.byte_ids)[uint8_t(c)] >= 0; })) {
      for (const char c : text) ids.push_back((*o_.byte_ids)[uint8_t(c)]);
      return;
    }
    check(o_.unk.has_value(), "tokenizer", o_.place, " has no unk_id, and '", valid_utf8(text),
          "' is none of its pieces");
    ids.push_back(*o_.unk);
  }
};

}  // namespace

std::unique_ptr<WordModel> make_unigram_model(std::vector<UnigramPiece> pieces, UnigramOptions options) {
  if (options.single_precision) return std::make_unique<UnigramModel<float>>(std::move(pieces), std::move(options));
  return std::make_unique<UnigramModel<double>>(std::move(pieces), std::move(options));
}

}  // namespace lithe
