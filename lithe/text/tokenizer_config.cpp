// Recipe section data.tokenizer.
#include <algorithm>

#include "lithe/base/error.h"
#include "lithe/base/fields.h"
#include "lithe/base/json.h"
#include "lithe/text/code_tokenizer.h"
#include "lithe/text/tokenizer.h"
#include "lithe/text/tokenizer_roles.h"

namespace lithe {
namespace {

std::vector<std::string> used_keys(const TokenizerConfig& config) {
  if (config.type == "bpe" || config.type == "wordpiece") return {"vocab_size", "min_frequency", "specials"};
  if (config.type == "unigram") return {"vocab_size", "specials"};
  if (config.type == "file") return {"file"};
  if (config.type == "words") return config.words.used_keys();
  if (config.type == "features") return {"num_features"};
  if (config.type == "none") return {"specials"};
  return {};
}

// Special tokens alone.
std::unique_ptr<Tokenizer> make_textless_tokenizer(const std::vector<std::string>& specials) {
  Json json = {{"version", "1.0"}, {"added_tokens", Json::array()}, {"model", {{"type", "WordLevel"}}}};
  for (const std::string& special : specials) {
    json["added_tokens"].push_back({{"id", json["added_tokens"].size()},
                                    {"content", special},
                                    {"single_word", false},
                                    {"lstrip", false},
                                    {"rstrip", false},
                                    {"normalized", false},
                                    {"special", true}});
    json["model"]["vocab"][special] = json["model"]["vocab"].size();
  }
  json["model"]["unk_token"] = specials[0];
  return parse_tokenizer(dump(json, 2), "a tokenizer of type none");
}

/// Fails on a key that was changed from its default although this type does not look at it.
void refuse_unused_keys(TokenizerConfig config) {
  TokenizerConfig standard;
  const Node given = write_fields([&](Fields& f) { config.fields(f); });
  const Node defaults = write_fields([&](Fields& f) { standard.fields(f); });
  const auto used = used_keys(config);
  for (const auto& [key, value] : given.entries()) {
    if (key == "type" || std::find(used.begin(), used.end(), key) != used.end()) continue;
    if (to_yaml(value) == to_yaml(*defaults.find(key))) continue;
    const bool words = config.type == "words";
    fail_usage("tokenizer", "key ", key, " is given, but type ", config.type,
               words ? cat(" with hash ", config.words.hash, " and code ", config.words.code) : std::string(),
               " does not use it: remove it, or choose what does");
  }
}

}  // namespace

void TokenizerConfig::fields(Fields& f) {
  f("type", type,
    "bytes; bpe (byte-level BPE), wordpiece (as BERT) or unigram (as SentencePiece), trained on the corpus; words (by "
    "their hashes), characters or features (rows of numbers), all without a vocabulary; none: special tokens only, for "
    "pictures without text; file: load a tokenizer",
    one_of({"bytes", "bpe", "wordpiece", "unigram", "words", "characters", "features", "none", "file"}));
  f("vocab_size", vocab_size,
    "entries of a trained BPE (with the 256 bytes), WordPiece or unigram, special tokens included",
    between(1, (1 << 24) - 1));
  f("min_frequency", min_frequency,
    "types bpe and wordpiece: a pair that occurs less often in the corpus is not merged", at_least(1));
  f("specials", specials,
    "special tokens. bpe, wordpiece: ids from 0; empty: <|endoftext|>, or [PAD] [UNK] [CLS] [SEP] [MASK]. unigram: ids "
    "from 4, after <pad> <unk> <s> </s>. none: [CLS], which begins each sequence; with [PAD] instead, no sequence has "
    "a special token");
  f("file", file,
    "type file: tokenizer.json, a SentencePiece .model, vocab.txt, or a directory with one of them or with vocab.json "
    "and merges.txt");
  f("num_features", num_features, "type features: numbers per token", between(0, 1 << 16));
  words.fields(f);
}

TokenCode TokenizerConfig::token_code() const {
  if (type == "words") return words.token_code();
  if (type == "characters") return {.payload = TokenCode::Payload::character, .size = 0x110000};
  if (type == "features") return {.payload = TokenCode::Payload::features, .size = num_features};
  return {};
}

bool learns_from_texts(const TokenizerConfig& config) {
  return config.type == "bpe" || config.type == "wordpiece" || config.type == "unigram" ||
         (config.type == "words" && config.words.hash == "lsh");
}

std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerConfig& config, const ForEachText& texts) {
  check_usage(config.file.empty() || config.type == "file", "tokenizer", "file '", config.file,
              "' is given, but the type is ", config.type, ": set type to file or remove it");
  refuse_unused_keys(config);
  if (config.type == "bytes") return make_byte_tokenizer();
  if (config.type == "characters") return make_character_tokenizer();
  if (config.type == "features") return make_feature_tokenizer(config.num_features);
  if (config.type == "none")
    return make_textless_tokenizer(config.specials.empty() ? std::vector<std::string>{"[CLS]"} : config.specials);
  if (config.type == "file") {
    check_usage(!config.file.empty(), "tokenizer", "type file needs the key file");
    return load_tokenizer(config.file);
  }
  if (config.type == "words") {
    config.words.validate();
    if (config.words.hash == "md5") return make_word_tokenizer(config.words, {});
    NgramTrainer ngrams(config.words);
    texts([&](std::string_view text) { ngrams.add(text); });
    return make_word_tokenizer(config.words, ngrams.train());
  }
  if (config.type == "unigram") {
    UnigramTrainer trainer({.vocab_size = config.vocab_size, .specials = config.specials});
    texts([&](std::string_view text) { trainer.add(text); });
    return trainer.train();
  }
  if (config.type == "wordpiece") {
    WordPieceTraining options{.vocab_size = config.vocab_size, .min_frequency = config.min_frequency};
    if (!config.specials.empty()) options.specials = config.specials;
    WordPieceTrainer trainer(options);
    texts([&](std::string_view text) { trainer.add(text); });
    return trainer.train();
  }
  check_usage(config.type == "bpe", "tokenizer",
              "type must be bytes, bpe, wordpiece, unigram, words, characters, features, none or file, got '",
              config.type, "'");
  BpeTraining options{.vocab_size = config.vocab_size, .min_frequency = config.min_frequency};
  if (!config.specials.empty()) {
    options.specials = config.specials;
    check_usage(names_end_of_text(config.specials), "tokenizer", "none of the specials ", join(config.specials),
                " is known to end a text: name one </s>, <eos>, <|end_of_text|>, [SEP] or <|endoftext|>");
  }
  BpeTrainer trainer(options);
  texts([&](std::string_view text) { trainer.add(text); });
  return trainer.train();
}

}  // namespace lithe
