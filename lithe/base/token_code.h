// The code of a token without a vocabulary: what encode() returns where Tokenizer::width() is above 1.
//
//   code[0]    which special token it is, or code_ordinary
//   code[1..]  the payload (TokenCode::Payload); zeros for a special token
#pragma once

#include <bit>
#include <cstdint>

namespace lithe {

/// Values of code[0]: the specials of RoBERTa and of the published HashFormers, then any other token.
inline constexpr int32_t code_bos = 0;   // <s>
inline constexpr int32_t code_pad = 1;   // <pad>
inline constexpr int32_t code_eos = 2;   // </s>
inline constexpr int32_t code_unk = 3;   // <unk>
inline constexpr int32_t code_mask = 4;  // <mask>
inline constexpr int32_t code_ordinary = 5;
inline constexpr int32_t code_values = 6;  // vocab_size() of a tokenizer without a vocabulary

/// Ints of a code whose payload is so many bits.
inline constexpr int64_t code_width(int64_t bits) { return 1 + (bits + 31) / 32; }

/// What a token of some tokenizer holds.
struct TokenCode {
  enum class Payload {
    none,       // a token is an id
    bits,       // `size` bits, most significant first: see code_bit; what is left of the last int is zero
    bucket,     // one int in [0, size)
    character,  // one int, a code point in [0, size)
    features,   // `size` ints, the bits of finite f32 numbers: see code_number
  };
  Payload payload = Payload::none;
  int64_t size = 0;

  /// Ints of one token, code[0] included.
  int64_t width() const {
    switch (payload) {
      case Payload::none: return 1;
      case Payload::bits: return code_width(size);
      case Payload::features: return 1 + size;
      default: return 2;
    }
  }
};

/// A number of a payload of features, and the int that holds it.
inline float code_number(int32_t bits) { return std::bit_cast<float>(bits); }
inline int32_t code_of_number(float number) { return std::bit_cast<int32_t>(number); }

/// Bit j of a payload of bits (code + 1): bit 31 - j % 32 of int j / 32. Bit 0 is the most significant of an MD5.
inline bool code_bit(const int32_t* payload, int64_t j) {
  return (uint32_t(payload[j / 32]) >> (31 - j % 32) & 1) != 0;
}

}  // namespace lithe
