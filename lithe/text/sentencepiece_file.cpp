#include "lithe/text/sentencepiece_file.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "lithe/base/error.h"
#include "lithe/text/utf8.h"

namespace lithe {
namespace {

using Piece = SentencePieceFile::Piece;
using PieceType = SentencePieceFile::PieceType;

constexpr size_t most_pieces = 1 << 24;
constexpr size_t longest_piece = 4096;  // bytes

/// The fields of a protocol buffer message, one after the other.
class Message {
 public:
  enum class Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

  Message(std::string_view bytes, const std::string& place) : rest_(bytes), place_(place) {}

  /// Goes to the next field; false at the end.
  bool next() {
    if (rest_.empty()) return false;
    const uint64_t tag = varint();
    number_ = tag >> 3;
    wire_ = Wire(tag & 7);
    check(number_ >= 1 && number_ < (1 << 29), "tokenizer", place_, ": field number ", number_, " is none: ", broken);
    switch (wire_) {
      case Wire::varint: value_ = varint(); return true;
      case Wire::fixed64: take(8); return true;
      case Wire::bytes: bytes_ = take(varint()); return true;
      case Wire::fixed32: std::memcpy(&word_, take(4).data(), 4); return true;
    }
    fail("tokenizer", place_, ": field ", number_, " has the unknown wire type ", tag & 7, ": ", broken);
  }

  bool is(uint64_t number, Wire wire) const { return number_ == number && wire_ == wire; }
  std::string_view bytes() const { return bytes_; }
  uint64_t value() const { return value_; }
  float number() const { return std::bit_cast<float>(word_); }

 private:
  static constexpr const char* broken = "this is no SentencePiece model, or a damaged one";
  std::string_view rest_, bytes_;
  const std::string& place_;
  uint64_t number_ = 0, value_ = 0;
  uint32_t word_ = 0;
  Wire wire_ = Wire::varint;

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = uint8_t(take(1)[0]);
      value |= uint64_t(byte & 127) << shift;
      if (byte < 128) return value;
    }
    fail("tokenizer", place_, ": a number of more than 64 bits: ", broken);
  }

  std::string_view take(uint64_t count) {
    check(count <= rest_.size(), "tokenizer", place_, ": ", count, " bytes are announced and ", rest_.size(),
          " are left: ", broken);
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
};
using Wire = Message::Wire;

Piece read_piece(std::string_view bytes, const std::string& place) {
  Piece piece;
  for (Message m(bytes, place); m.next();) {
    if (m.is(1, Wire::bytes)) piece.text = m.bytes();
    if (m.is(2, Wire::fixed32)) piece.score = m.number();
    if (!m.is(3, Wire::varint)) continue;
    check(m.value() >= 1 && m.value() <= 6, "tokenizer", place, ": type ", m.value(), " is not supported");
    piece.type = PieceType(m.value());
  }
  check(!piece.text.empty() && piece.text.size() <= longest_piece, "tokenizer", place, " has ", piece.text.size(),
        " bytes, must have 1 to ", longest_piece);
  check(is_valid_utf8(piece.text) && piece.text.find('\0') == std::string::npos, "tokenizer", place,
        " must be UTF-8 without a zero byte");
  check(std::isfinite(piece.score), "tokenizer", place, ": score ", piece.score, " is not finite");
  return piece;
}

void read_trainer(std::string_view bytes, const std::string& place, SentencePieceFile& file) {
  for (Message m(bytes, place); m.next();) {
    if (m.is(3, Wire::varint)) {
      check(m.value() == 1 || m.value() == 2, "tokenizer", place, ": model type ", m.value(),
            " is not supported, only 1 (unigram) and 2 (BPE)");
      file.kind = SentencePieceFile::Kind(m.value());
    }
    check(!m.is(24, Wire::varint) || m.value() == 0, "tokenizer", place,
          ": white space as a suffix of pieces is not supported");
    if (m.is(35, Wire::varint)) file.byte_fallback = m.value() != 0;
    if (m.is(44, Wire::bytes)) file.unk_surface = m.bytes();
    if (m.is(46, Wire::bytes)) file.bos_piece = m.bytes();
    if (m.is(47, Wire::bytes)) file.eos_piece = m.bytes();
    if (m.is(48, Wire::bytes)) file.pad_piece = m.bytes();
  }
  check(is_valid_utf8(file.unk_surface), "tokenizer", place, ": unk_surface is not UTF-8");
}

void read_normalizer(std::string_view bytes, const std::string& place, SentencePieceFile& file) {
  for (Message m(bytes, place); m.next();) {
    if (m.is(2, Wire::bytes)) file.rules = m.bytes();
    if (m.is(3, Wire::varint)) file.add_dummy_prefix = m.value() != 0;
    if (m.is(4, Wire::varint)) file.remove_extra_whitespaces = m.value() != 0;
    if (m.is(5, Wire::varint)) file.escape_whitespaces = m.value() != 0;
  }
}

}  // namespace

SentencePieceFile read_sentencepiece_file(std::string_view bytes, const std::string& origin) {
  SentencePieceFile file;
  const std::string place = "'" + origin + "'";
  for (Message m(bytes, place); m.next();) {
    if (m.is(1, Wire::bytes)) {
      check(file.pieces.size() < most_pieces, "tokenizer", place, " has more than ", most_pieces, " pieces");
      file.pieces.push_back(read_piece(m.bytes(), cat(place, ": piece ", file.pieces.size())));
    }
    if (m.is(2, Wire::bytes)) read_trainer(m.bytes(), place + ": trainer_spec", file);
    if (m.is(3, Wire::bytes)) read_normalizer(m.bytes(), place + ": normalizer_spec", file);
    if (!m.is(5, Wire::bytes)) continue;
    for (Message d(m.bytes(), place); d.next();)
      check(!d.is(2, Wire::bytes) || d.bytes().empty(), "tokenizer", place, ": a denormalizer is not supported");
  }
  check(!file.pieces.empty(), "tokenizer", place, " has no pieces: this is no SentencePiece model");
  return file;
}

}  // namespace lithe
