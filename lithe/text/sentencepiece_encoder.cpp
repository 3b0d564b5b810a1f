#include "lithe/text/sentencepiece_encoder.h"

#include <algorithm>
#include <limits>

#include "lithe/base/error.h"
#include "lithe/text/byte_alphabet.h"
#include "lithe/text/normalizer.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

using Piece = SentencePieceFile::Piece;
using PieceType = SentencePieceFile::PieceType;

constexpr size_t longest_text = 1 << 30;  // bytes; what is cut is counted in 32 bits
constexpr std::string_view replacement_character = "\xEF\xBF\xBD";

/// Pieces that cut texts; the others stand for themselves.
bool cuts(const Piece& piece) { return piece.type == PieceType::normal || piece.type == PieceType::user_defined; }

}  // namespace

SentencePieceEncoder::SentencePieceEncoder(const SentencePieceFile& file, const Vocabulary& vocabulary,
                                           const std::string& origin)
    : file_(file), vocabulary_(vocabulary), space_(file.escape_whitespaces ? "\u2581" : " ") {
  const std::string place = "'" + origin + "'";
  if (!file.rules.empty()) rules_.emplace(file.rules, place);
  std::vector<std::string_view> defined;
  std::array<int32_t, 256> bytes;
  bytes.fill(-1);
  least_ = std::numeric_limits<double>::max(), most_ = std::numeric_limits<double>::lowest();
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    const Piece& piece = file.pieces[id];
    if (piece.type == PieceType::user_defined) defined.push_back(piece.text);
    if (piece.type == PieceType::unknown) {
      check(unk_ < 0, "tokenizer", place, " has two pieces of type unknown, ", unk_, " and ", id);
      unk_ = int32_t(id);
    }
    if (const auto byte = fallback_byte(piece.text); byte && piece.type == PieceType::byte)
      bytes[uint8_t(*byte)] = int32_t(id);
    if (piece.type != PieceType::normal) continue;
    least_ = std::min(least_, double(piece.score));
    most_ = std::max(most_, double(piece.score));
  }
  check(unk_ >= 0, "tokenizer", place,
        ": no piece is of type unknown: this is no SentencePiece model, or a damaged one");
  check(most_ >= least_, "tokenizer", place, " has no normal pieces: this is no SentencePiece model, or a damaged one");
  if (!defined.empty()) user_defined_.emplace(defined);
  if (file.byte_fallback) {
    const auto missing = std::find(bytes.begin(), bytes.end(), -1);
    check(missing == bytes.end(), "tokenizer", place, " says byte_fallback, and has no piece for byte ",
          missing - bytes.begin());
    byte_ids_ = bytes;
  }
  file.kind == SentencePieceFile::Kind::unigram ? make_unigram(place) : make_bpe(origin);
}

double SentencePieceEncoder::log_probability(int32_t id) const {
  const Piece& piece = file_.pieces[size_t(id)];
  return piece.type == PieceType::user_defined ? double(piece.text.size()) * most_ - 0.1 : double(piece.score);
}

void SentencePieceEncoder::make_unigram(const std::string& place) {
  std::vector<UnigramPiece> pieces;
  for (size_t id = 0; id < file_.pieces.size(); ++id)
    if (cuts(file_.pieces[id])) pieces.push_back({file_.pieces[id].text, log_probability(int32_t(id)), int32_t(id)});
  model_ = make_unigram_model(std::move(pieces), {.unk = unk_,
                                                  .byte_ids = byte_ids_,
                                                  .unknown_score = unknown_log_probability(),
                                                  .single_precision = true,
                                                  .place = place});
}

Vocabulary vocabulary_of(const SentencePieceFile& file, const std::string& origin) {
  Vocabulary vocabulary(file.pieces.size(), "'" + origin + "'");
  for (const Piece& piece : file.pieces) vocabulary.add(piece.text, vocabulary.size());
  return vocabulary;
}

std::vector<ScoredMerge> sentencepiece_merges(const SentencePieceFile& file, const Vocabulary& vocabulary,
                                              const std::string& origin) {
  std::vector<ScoredMerge> found;
  const auto part = [&](std::string_view text) -> std::optional<int32_t> {
    const auto id = vocabulary.find(text);
    return id && file.pieces[size_t(*id)].type == PieceType::normal ? id : std::nullopt;
  };
  for (size_t id = 0; id < file.pieces.size(); ++id) {
    const Piece& piece = file.pieces[id];
    if (piece.type != PieceType::normal && piece.type != PieceType::unused) continue;
    const std::string_view text = piece.text;
    for (size_t at = utf8_unit(text).length; at < text.size(); at += utf8_unit(text.substr(at)).length) {
      const auto left = part(text.substr(0, at)), right = part(text.substr(at));
      if (!left || !right) continue;
      check(piece.type == PieceType::normal, "tokenizer", "'", origin, "': piece ", id, ", '", text,
            "', is unused and can be merged, which is not supported");
      found.push_back({{*left, *right, int32_t(id)}, piece.score});
    }
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const ScoredMerge& a, const ScoredMerge& b) { return a.score > b.score; });
  return found;
}

void SentencePieceEncoder::make_bpe(const std::string& origin) {
  const std::vector<ScoredMerge> found = sentencepiece_merges(file_, vocabulary_, origin);
  std::vector<Merge> merges;
  BpeOptions options{.byte_level = false, .byte_fallback = file_.byte_fallback, .fuse_unk = true, .unk = unk_};
  for (const ScoredMerge& ranked : found) {
    const bool tie = !merges.empty() && found[merges.size() - 1].score == ranked.score;
    options.ranks.push_back(tie ? options.ranks.back() : uint32_t(merges.size()));
    merges.push_back(ranked.merge);
  }
  model_ = make_bpe_model(vocabulary_, merges, options);
  const auto space = vocabulary_.find(space_);
  by_words_ = space && cuts(file_.pieces[size_t(*space)]);  // or else spaces would join the unknown before them
  for (const Piece& piece : file_.pieces)
    if (piece.type == PieceType::normal) by_words_ = by_words_ && word_end(piece.text) == piece.text.size();
}

/// What the start of `text` becomes.
Charsmap::Rule SentencePieceEncoder::step(std::string_view text) const {
  if (const size_t defined = user_defined_ ? user_defined_->longest(text) : 0)
    return {defined, text.substr(0, defined)};
  if (rules_)
    if (const auto rule = rules_->longest(text)) return *rule;
  const Utf8Unit unit = utf8_unit(text);
  if (unit.kind != Utf8Unit::Kind::character) return {1, replacement_character};
  return {unit.length, text.substr(0, unit.length)};
}

std::string SentencePieceEncoder::normalize(std::string_view text) const {
  check(text.size() <= longest_text, "tokenizer", "a text of ", text.size(), " bytes is above the ", longest_text,
        " that SentencePiece handles: cut it into documents");
  const size_t before = text.size();
  const bool tidy = file_.remove_extra_whitespaces;
  while (tidy && !text.empty()) {
    const Charsmap::Rule first = step(text);
    if (first.replacement != " ") break;
    text.remove_prefix(first.length);
  }
  std::string out;
  if (text.empty()) return out;
  out.reserve(text.size() + text.size() / 4 + space_.size());
  if (file_.add_dummy_prefix) out += space_;
  for (bool after_space = tidy; !text.empty();) {
    const Charsmap::Rule rule = step(text);
    std::string_view made = rule.replacement;
    if (after_space) made.remove_prefix(std::min(made.find_first_not_of(' '), made.size()));
    for (const char c : made) c == ' ' ? out += space_ : out += c;
    if (!made.empty()) after_space = tidy && made.back() == ' ';
    text.remove_prefix(rule.length);
    check_growth(before, out.size());
  }
  while (tidy && out.ends_with(space_)) out.resize(out.size() - space_.size());
  return out;
}

/// Where the word ends that starts `text`, spaces before it included.
size_t SentencePieceEncoder::word_end(std::string_view text) const {
  size_t begin = 0;
  while (text.substr(begin).starts_with(space_)) begin += space_.size();
  return std::min(text.find(space_, begin), text.size());
}

/// Words with the spaces before them; all of `text` where pieces go over spaces.
std::vector<std::string_view> SentencePieceEncoder::words(std::string_view text) const {
  std::vector<std::string_view> out;
  while (by_words_ && !text.empty()) {
    const size_t end = word_end(text);
    out.push_back(text.substr(0, end));
    text.remove_prefix(end);
  }
  if (!text.empty()) out.push_back(text);
  return out;
}

/// Calls encode(words) for what stands between the pieces that the user defined, which a BPE keeps whole.
template <class Encode>
void SentencePieceEncoder::between_user_defined(std::string_view text, std::vector<int32_t>& ids,
                                                Encode&& encode) const {
  if (!user_defined_) return encode(words(text));
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t defined = user_defined_->longest(text.substr(at));
    if (defined == 0) {
      at += utf8_unit(text.substr(at)).length;
      continue;
    }
    if (at > begin) encode(words(text.substr(begin, at - begin)));
    ids.push_back(*vocabulary_.find(text.substr(at, defined)));
    begin = at += defined;
  }
  if (begin < text.size()) encode(words(text.substr(begin)));
}

void SentencePieceEncoder::encode(std::string_view normalized, std::vector<int32_t>& ids) const {
  if (file_.kind == SentencePieceFile::Kind::unigram) return model_->encode(normalized, ids);
  between_user_defined(normalized, ids, [&](auto words) { encoder_.encode(*model_, words, ids); });
}

void SentencePieceEncoder::sample(std::string_view normalized, MergeDropout& dropout, std::vector<int32_t>& ids) const {
  between_user_defined(normalized, ids, [&](auto words) {
    for (const std::string_view word : words) model_->sample(word, dropout, ids);
  });
}

}  // namespace lithe
