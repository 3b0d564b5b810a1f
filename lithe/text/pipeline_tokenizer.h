// The tokenizer that every file becomes: added tokens, normalizer, pre-tokenizer, model, decoder.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lithe/text/added_tokens.h"
#include "lithe/text/normalizer.h"
#include "lithe/text/pretokenizer.h"
#include "lithe/text/tokenizer.h"
#include "lithe/text/vocabulary.h"
#include "lithe/text/word_model.h"

namespace lithe {

/// How tokens become text.
struct Decoding {
  enum class Kind {
    byte_level,  // bytes in the spelling of byte_alphabet.h
    word_piece,  // words separated by spaces; a token that starts with `prefix` goes on without one
    steps,       // tokens are changed one by one, and stand side by side
  } kind = Kind::byte_level;
  std::string prefix = "##";  // word_piece
  bool cleanup = false;       // word_piece: no space before punctuation and English contractions

  // Kind::steps
  using Step = std::function<std::string(std::string_view token, bool first)>;  // first: of the text
  std::vector<Step> steps;
  bool bytes = false;   // tokens <0x00> ... <0xFF> are bytes
  bool once = false;    // equal tokens in a row count once (CTC)
  std::string between;  // stands between tokens
  std::string end;      // what a word's last token ends with: a space, nothing at the end of the text
  std::string strip;    // the character that is taken from the text's ends,
  int64_t strip_start = 0, strip_stop = 0;  // at most so many
};

struct TokenizerParts {
  std::string json;                        // the file
  std::unique_ptr<Vocabulary> vocabulary;  // added tokens included
  std::vector<AddedToken> added;
  Normalizer normalizer;
  PreTokenizer pretokenizer;
  std::unique_ptr<WordModel> model;
  Decoding decoding;
  Specials specials;
};

std::unique_ptr<Tokenizer> make_pipeline_tokenizer(TokenizerParts parts);

}  // namespace lithe
