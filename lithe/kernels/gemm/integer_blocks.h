// Blocks of integer weights as GGUF files hold them: ggml's Q4_0, Q8_0, IQ4_NL, Q4_K, Q5_K and Q6_K.
#pragma once

#include <cstdint>

namespace lithe::kernels {

enum class PackedFormat : uint8_t { f32, bf16, int8, int4, q4_0, q8_0, iq4_nl, q4_k, q5_k, q6_k };
[[gnu::always_inline]] constexpr bool in_blocks(PackedFormat format) { return format >= PackedFormat::q4_0; }

/// With q the code of an input, s and m the scale and minimum of its group (whole numbers; s = 1 where there are none),
/// d and least the f16 numbers of its block:  w = d s (q - offset) - least m,  or with a table  w = d table[q].
struct BlockFormat {
  int64_t inputs, bytes;  // of a block in a file
  int64_t group;          // inputs that share a scale
  int low, high;          // bits of a code: 4 or 8, and those beside them
  int offset;
  bool scales, minimums, table;
};
[[gnu::always_inline]] constexpr BlockFormat block_format(PackedFormat format) {
  switch (format) {
    case PackedFormat::q4_0: return {32, 18, 32, 4, 0, 8, false, false, false};
    case PackedFormat::q8_0: return {32, 34, 32, 8, 0, 128, false, false, false};
    case PackedFormat::iq4_nl: return {32, 18, 32, 4, 0, 0, false, false, true};
    case PackedFormat::q4_k: return {256, 144, 32, 4, 0, 0, true, true, false};
    case PackedFormat::q5_k: return {256, 176, 32, 4, 1, 0, true, true, false};
    case PackedFormat::q6_k: return {256, 210, 16, 4, 2, 32, true, false, false};
    default: return {};
  }
}
/// f.template operator()<format>(), for formats in blocks.
template <class F>
[[gnu::always_inline]] inline void with_block_format(PackedFormat format, F&& f) {
  switch (format) {
    case PackedFormat::q4_0: return f.template operator()<PackedFormat::q4_0>();
    case PackedFormat::q8_0: return f.template operator()<PackedFormat::q8_0>();
    case PackedFormat::iq4_nl: return f.template operator()<PackedFormat::iq4_nl>();
    case PackedFormat::q4_k: return f.template operator()<PackedFormat::q4_k>();
    case PackedFormat::q5_k: return f.template operator()<PackedFormat::q5_k>();
    default: return f.template operator()<PackedFormat::q6_k>();
  }
}
/// Of IQ4_NL.
inline constexpr int8_t kBlockTable[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

/// A block of a file, read.
struct IntegerBlock {
  uint8_t codes[256];  // Q8_0: value + 128
  int8_t scales[16];   // a group
  uint8_t minimums[8];
  uint16_t d, least;  // f16
};
void read_block(PackedFormat format, const uint8_t* from, IntegerBlock& block);
/// Its numbers, as ggml computes them in f32.
void numbers_of_block(PackedFormat format, const IntegerBlock& block, float* out);

/// How a panel of 32 outputs holds a block: d and least f16 [output], scales and minimums u8 [group][output], then a
/// piece for every 32 inputs. A piece has words of 4 inputs [output][4]: the low halves of a word are one unit of 4
/// inputs, the high ones the next (8 bits: a word a unit); then the words of the other bits: bit u of each byte is that
/// of unit u (1 bit), or bits 2u of unit u, four units a word (2 bits).
struct BlockLayout {
  static constexpr int64_t kPanel = 32, kWord = kPanel * 4, kPiece = 32;
  BlockFormat format;
  [[gnu::always_inline]] constexpr explicit BlockLayout(PackedFormat f) : format(block_format(f)) {}
  [[gnu::always_inline]] constexpr int64_t groups() const { return format.inputs / format.group; }
  [[gnu::always_inline]] constexpr int64_t d_at() const { return 0; }
  [[gnu::always_inline]] constexpr int64_t least_at() const { return kPanel * 2; }
  [[gnu::always_inline]] constexpr int64_t scales_at() const { return kPanel * 2 * (1 + format.minimums); }
  [[gnu::always_inline]] constexpr int64_t minimums_at() const {
    return scales_at() + (format.scales ? groups() * kPanel : 0);
  }
  [[gnu::always_inline]] constexpr int64_t pieces_at() const {
    return minimums_at() + (format.minimums ? groups() * kPanel : 0);
  }
  /// Bits of a code are the words of 32 of them.
  [[gnu::always_inline]] constexpr int64_t piece_bytes() const { return (format.low + format.high) * kWord; }
  [[gnu::always_inline]] constexpr int64_t bytes() const {
    return pieces_at() + format.inputs / kPiece * piece_bytes();
  }

  /// The code of input k of a block whose panel begins at `block`.
  [[gnu::always_inline]] int code(const uint8_t* block, int64_t output, int64_t k) const {
    const int64_t unit = k % kPiece / 4;
    const uint8_t* at = block + pieces_at() + k / kPiece * piece_bytes() + output * 4 + k % 4;
    if (format.low == 8) return at[unit * kWord];
    const int low = at[unit / 2 * kWord] >> (unit % 2 * 4) & 15;
    if (format.high == 1) return low | (at[4 * kWord] >> unit & 1) << 4;
    if (format.high == 2) return low | (at[(4 + unit / 4) * kWord] >> (unit % 4 * 2) & 3) << 4;
    return low;
  }
};

}  // namespace lithe::kernels
