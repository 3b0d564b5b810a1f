#include "lithe/kernels/gemm/integer_blocks.h"

#include <cstring>

#include "lithe/tensor/half.h"

namespace lithe::kernels {
namespace {

uint16_t half_at(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return bits;
}

// Eight codes at a time, one a byte.
constexpr uint64_t repeated(uint8_t byte) { return 0x0101010101010101u * byte; }
uint64_t eight_at(const uint8_t* p) {
  uint64_t bytes;
  std::memcpy(&bytes, p, sizeof bytes);
  return bytes;
}
void put_eight(uint8_t* p, uint64_t codes) { std::memcpy(p, &codes, sizeof codes); }
// Bits [shift, shift + those of the mask) of each byte.
uint64_t bits_of(uint64_t bytes, int shift, uint8_t mask) { return bytes >> shift & repeated(mask); }

// Scale and minimum j of eight, 6 bits each, packed into 12 bytes.
void scale_and_minimum(int j, const uint8_t* q, IntegerBlock& to) {
  if (j < 4) {
    to.scales[j] = int8_t(q[j] & 63);
    to.minimums[j] = q[j + 4] & 63;
  } else {
    to.scales[j] = int8_t((q[j + 4] & 15) | (q[j - 4] >> 6) << 4);
    to.minimums[j] = uint8_t((q[j + 4] >> 4) | (q[j] >> 6) << 4);
  }
}

void read_q4_or_5_k(const uint8_t* p, bool fifth, IntegerBlock& to) {
  to.d = half_at(p), to.least = half_at(p + 2);
  for (int j = 0; j < 8; ++j) scale_and_minimum(j, p + 4, to);
  const uint8_t *high = p + 16, *low = fifth ? p + 48 : p + 16;
  for (int g = 0; g < 8; ++g)
    for (int l = 0; l < 32; l += 8)
      put_eight(to.codes + g * 32 + l, bits_of(eight_at(low + g / 2 * 32 + l), g % 2 * 4, 15) |
                                           (fifth ? bits_of(eight_at(high + l), g, 1) << 4 : 0));
}

void read_q6_k(const uint8_t* p, IntegerBlock& to) {
  std::memcpy(to.scales, p + 192, 16);
  to.d = half_at(p + 208);
  for (int part = 0; part < 2; ++part)
    for (int quarter = 0; quarter < 4; ++quarter)
      for (int l = 0; l < 32; l += 8)
        put_eight(to.codes + part * 128 + quarter * 32 + l,
                  bits_of(eight_at(p + part * 64 + quarter % 2 * 32 + l), quarter / 2 * 4, 15) |
                      bits_of(eight_at(p + 128 + part * 32 + l), 2 * quarter, 3) << 4);
}

}  // namespace

void read_block(PackedFormat format, const uint8_t* p, IntegerBlock& to) {
  to.scales[0] = 1;
  switch (format) {
    case PackedFormat::q4_0:
    case PackedFormat::iq4_nl:
      to.d = half_at(p);
      for (int j = 0; j < 32; j += 8) put_eight(to.codes + j, bits_of(eight_at(p + 2 + j % 16), j / 16 * 4, 15));
      break;
    case PackedFormat::q8_0:
      to.d = half_at(p);
      for (int j = 0; j < 32; j += 8) put_eight(to.codes + j, eight_at(p + 2 + j) ^ repeated(128));
      break;
    case PackedFormat::q4_k: read_q4_or_5_k(p, false, to); break;
    case PackedFormat::q5_k: read_q4_or_5_k(p, true, to); break;
    case PackedFormat::q6_k: read_q6_k(p, to); break;
    default: break;
  }
}

void numbers_of_block(PackedFormat format, const IntegerBlock& block, float* out) {
  const BlockFormat f = block_format(format);
  const float d = float_of_half(block.d), least = f.minimums ? float_of_half(block.least) : 0;
  for (int64_t k = 0; k < f.inputs; ++k) {
    const int64_t g = k / f.group;
    const float scale = f.scales ? d * float(block.scales[g]) : d;
    const int value = f.table ? kBlockTable[block.codes[k]] : block.codes[k] - f.offset;
    out[k] = f.minimums ? scale * float(value) - least * float(block.minimums[g]) : scale * float(value);
  }
}

}  // namespace lithe::kernels
