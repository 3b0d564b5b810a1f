// A SentencePiece model as Hugging Face's tokenizer.json.
#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/base/json.h"
#include "lithe/text/base64.h"
#include "lithe/text/sentencepiece_encoder.h"
#include "lithe/text/tokenizer_json.h"

namespace lithe {
namespace {

using PieceType = SentencePieceFile::PieceType;

Json replace(const char* kind, const char* pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}};
}

Json normalizer_of(const SentencePieceFile& file, bool prepend) {
  Json steps = Json::array();
  if (!file.rules.empty()) steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", to_base64(file.rules)}});
  if (file.remove_extra_whitespaces) {
    steps.push_back(replace("Regex", "\\A +|[ \u2581]+\\z", ""));
    steps.push_back(replace("Regex", " {2,}", " "));
  }
  const char* const space = file.escape_whitespaces ? "\u2581" : " ";
  if (prepend) steps.push_back({{"type", "Prepend"}, {"prepend", space}});
  if (file.escape_whitespaces) steps.push_back(replace("String", " ", space));
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

Json decoder_of(const SentencePieceFile& file) {
  Json steps = Json::array();
  if (file.escape_whitespaces) steps.push_back(replace("String", "\u2581", " "));
  if (file.byte_fallback) steps.push_back({{"type", "ByteFallback"}});
  steps.push_back({{"type", "Fuse"}});
  if (file.add_dummy_prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", steps}};
}

}  // namespace

std::string sentencepiece_json(const std::string& model, const std::string& origin) {
  const SentencePieceFile file = read_sentencepiece_file(model, origin);
  const Vocabulary vocabulary = vocabulary_of(file, origin);
  const SentencePieceEncoder encoder(file, vocabulary, origin);
  std::vector<AddedToken> added;
  std::vector<std::string> texts;
  bool defined = false;
  for (const auto& piece : file.pieces) {
    const int32_t id = int32_t(texts.size());
    texts.push_back(piece.text);
    const bool user_defined = piece.type == PieceType::user_defined;
    if (user_defined || piece.type == PieceType::control || piece.type == PieceType::unknown)
      added.push_back({.id = id, .content = piece.text, .special = !user_defined});
    defined = defined || user_defined;
  }
  // Where added tokens part a text, only Metaspace can put a space before its beginning alone.
  const bool first = file.add_dummy_prefix && defined && file.escape_whitespaces;
  const Json normalizer = normalizer_of(file, file.add_dummy_prefix && !first);
  const Json metaspace =
      first ? Json{{"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}, {"split", false}}
            : Json();
  std::string model_json;
  if (file.kind == SentencePieceFile::Kind::unigram) {
    std::string pieces;
    for (size_t id = 0; id < texts.size(); ++id) {
      const bool cuts = file.pieces[id].type == PieceType::normal || file.pieces[id].type == PieceType::user_defined;
      const double score = cuts ? encoder.log_probability(int32_t(id)) : encoder.least_log_probability();
      pieces += (id == 0 ? "\n      " : ",\n      ") + dump(Json::array({texts[id], score}));
    }
    model_json = cat("{\n    \"type\": \"Unigram\",\n    \"unk_id\": ", encoder.unk(), ",\n    \"vocab\": [", pieces,
                     "\n    ],\n    \"byte_fallback\": ", file.byte_fallback ? "true" : "false", "\n  }");
  } else {
    BpeDescription description{.vocabulary = texts, .merges = {}, .added = {}};
    for (const ScoredMerge& scored : sentencepiece_merges(file, vocabulary, origin))
      description.merges.push_back({texts[size_t(scored.merge.left)], texts[size_t(scored.merge.right)]});
    model_json = bpe_model_json(description, texts[size_t(encoder.unk())], file.byte_fallback);
  }
  return tokenizer_document(added, normalizer, metaspace, nullptr, decoder_of(file), model_json);
}

}  // namespace lithe
