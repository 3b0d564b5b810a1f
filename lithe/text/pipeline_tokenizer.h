// The tokenizer that every file becomes: added tokens, normalizer, pre-tokenizer, model, decoder.
#pragma once

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
    metaspace,   // U+2581 is a space, <0x00> ... <0xFF> are bytes
  } kind = Kind::byte_level;
  std::string prefix = "##";  // word_piece
  bool cleanup = false;       // word_piece: no space before punctuation and English contractions
  bool strip_start = false;   // metaspace: one space is taken from the start of the text
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
