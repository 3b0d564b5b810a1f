// Tokenizers without a vocabulary: words by their hashes, characters by their code points, and rows of numbers.
#pragma once

#include <memory>
#include <string>

#include "lithe/text/ngrams.h"
#include "lithe/text/tokenizer.h"
#include "lithe/text/word_cutter.h"
#include "lithe/text/word_hash.h"

namespace lithe {

class JsonSection;
struct Roles;

/// Type words. `ngrams` must be empty for md5.
std::unique_ptr<Tokenizer> make_word_tokenizer(const WordHashSettings& settings, NgramDictionary ngrams);

/// Type characters: one code a character; each sequence of bytes that is no UTF-8 is <unk>.
std::unique_ptr<Tokenizer> make_character_tokenizer();

/// Type features: a text is numbers, `size` a token, between white space, commas or semicolons: what was measured of a
/// frame, a patch or a moment. encode() fails on anything else.
std::unique_ptr<Tokenizer> make_feature_tokenizer(int64_t size);

/// Words of a corpus to the n-grams of lsh.
class NgramTrainer {
 public:
  explicit NgramTrainer(const WordHashSettings& settings) : settings_(settings), cutter_(settings.lowercase) {}
  void add(std::string_view text);
  NgramDictionary train() const { return learn_ngrams(counts_, settings_.ngram_max, settings_.ngram_vocab_size); }

 private:
  WordHashSettings settings_;
  WordCutter cutter_;
  WordTable<int64_t> counts_;
};

/// True for type words.
bool is_word_tokenizer(const Tokenizer& tokenizer);
/// Distinct words that a tokenizer of type words cuts `text` into, in the order of their first place. Fails for other
/// tokenizers.
std::vector<std::string> distinct_words(const Tokenizer& tokenizer, std::string_view text);

/// What each token of encode(text) stands for, for tokens without a vocabulary: words, lowered where the tokenizer
/// does, or characters. Fails for other tokenizers.
std::vector<std::string> token_texts(const Tokenizer& tokenizer, std::string_view text);

/// The tokenizer.json of a tokenizer without a vocabulary has this key, which none of Hugging Face has.
inline constexpr const char* code_tokenizer_key = "lithe_tokenizer";
/// Reads one. Fails when it was written by another version, was changed or damaged, or would hash otherwise here than
/// where it was made.
std::unique_ptr<Tokenizer> parse_code_tokenizer(const JsonSection& root, std::string json, const std::string& origin,
                                                const Roles& roles);

}  // namespace lithe
