// Reading SentencePiece's .model files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lithe {

/// What cutting a text needs of a model.
struct SentencePieceFile {
  enum class Kind { unigram = 1, bpe = 2 } kind = Kind::unigram;
  enum class PieceType { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  struct Piece {
    std::string text;
    float score = 0;  // unigram: log-probability
    PieceType type = PieceType::normal;
  };
  std::vector<Piece> pieces;             // by id
  std::string unk_surface = " \u2047 ";  // what <unk> decodes to
  bool byte_fallback = false;            // a character without a piece becomes the pieces <0x00> ... <0xFF>
  std::string bos_piece = "<s>", eos_piece = "</s>", pad_piece = "<pad>";
  std::string rules;                     // of normalization, as Charsmap reads them; empty: none
  bool add_dummy_prefix = true;          // a space goes before the text
  bool remove_extra_whitespaces = true;  // spaces at the ends go, of many in a row one stays
  bool escape_whitespaces = true;        // a space is spelled U+2581
};

/// Reads the protocol buffer ModelProto. Fails on anything that is no such message, and on models of words or
/// characters, denormalizers, and white space as a suffix, which are not supported. `origin` stands in errors.
SentencePieceFile read_sentencepiece_file(std::string_view bytes, const std::string& origin);

}  // namespace lithe
