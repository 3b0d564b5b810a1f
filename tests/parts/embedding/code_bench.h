// Embeddings of vocabulary-free tokens built alone, and codes for them.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "tests/support/model_kit.h"

namespace lithe::kit {

using Code = std::vector<uint32_t>;  // 5, payload

/// Codes as the embedding reads them: i32 [N, width].
inline Tensor codes_of(const std::vector<Code>& codes) {
  const Tensor out = empty({int64_t(codes.size()), int64_t(codes.at(0).size())}, DType::i32);
  int32_t* at = out.data<int32_t>();
  for (const Code& code : codes)
    for (const uint32_t word : code) *at++ = int32_t(word);
  return out;
}

/// The code of these bits ("1010"), the first the most significant.
inline Code code_of_bits(const std::string& bits) {
  Code out(1 + (bits.size() + 31) / 32, 0);
  out[0] = 5;
  for (size_t j = 0; j < bits.size(); ++j)
    if (bits[j] == '1') out[1 + j / 32] |= 1u << (31 - j % 32);
  return out;
}

/// Bits as code_of_bits takes them.
inline std::string random_bits(int64_t count, uint64_t seed) {
  const RandomKey key{.seed = seed, .purpose = purpose_of("kit.bits")};
  std::string out;
  for (int64_t j = 0; j < count; ++j) out += random_below(key, uint64_t(j), 2) ? '1' : '0';
  return out;
}
inline Tensor numbers_of_bits(const std::string& bits) {
  const Tensor out = empty({1, int64_t(bits.size())}, DType::f64);
  for (size_t j = 0; j < bits.size(); ++j) set_value(out, int64_t(j), bits[j] == '1');
  return out;
}

/// MD5 of a text below 56 bytes (RFC 1321), as the four big-endian ints of its digest.
inline std::array<uint32_t, 4> md5(const std::string& text) {
  constexpr int kTurns[4][4] = {{7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
  uint32_t block[16] = {};
  for (size_t i = 0; i <= text.size(); ++i)
    block[i / 4] |= uint32_t(i < text.size() ? uint8_t(text[i]) : 0x80) << (8 * (i % 4));
  block[14] = uint32_t(8 * text.size());
  const std::array<uint32_t, 4> start{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
  auto [a, b, c, d] = start;
  for (uint32_t i = 0; i < 64; ++i) {
    const uint32_t f[4] = {(b & c) | (~b & d), (d & b) | (~d & c), b ^ c ^ d, c ^ (b | ~d)};
    const uint32_t from[4] = {i, 5 * i + 1, 3 * i + 5, 7 * i};
    const uint32_t sum =
        a + f[i / 16] + uint32_t(std::floor(std::abs(std::sin(double(i + 1))) * 0x1p32)) + block[from[i / 16] % 16];
    const int turn = kTurns[i / 16][i % 4];
    a = d, d = c, c = b;
    b += sum << turn | sum >> (32 - turn);
  }
  const uint32_t state[4] = {a, b, c, d};
  std::array<uint32_t, 4> out;
  for (size_t i = 0; i < 4; ++i) out[i] = __builtin_bswap32(start[i] + state[i]);
  return out;
}
inline Code md5_code(const std::string& word) {
  const auto digest = md5(word);
  return {5, digest[0], digest[1], digest[2], digest[3]};
}

class CodeBench {
 public:
  CodeBench(const std::string& type, int64_t hidden_size, int64_t width, const std::string& options = "{}",
            Device device = Device::cpu)
      : bench(DType::f64, DType::f64, device),
        part(bench.make<Embedding>(type, {.vocab_size = 6, .hidden_size = hidden_size, .token_width = width}, options)),
        hidden_size_(hidden_size) {
    if (device != Device::meta) randomise(bench.parameters(), 3);
  }
  Tensor operator()(const std::vector<Code>& codes) const { return part->forward(codes_of(codes)).value(); }
  Tensor operator[](const std::string& name) { return bench[std::string("part.") + name]; }
  /// Parameters without the rows of special tokens.
  int64_t hashed_parameters() { return bench.parameters().count() - 6 * hidden_size_; }
  /// Special tokens have their own rows and nothing else; `ordinary` has nothing of them.
  void expect_special_rows(const Code& ordinary) {
    const Tensor special = (*this)["special"], before = (*this)({ordinary});
    for (uint32_t s = 0; s < 5; ++s) {
      Code code(ordinary.size(), 0);
      code[0] = s;
      const Tensor rows = (*this)({ordinary, code});
      EXPECT_EQ(bit_difference(clone(rows.slice(1, 2)), clone(special.slice(s, s + 1))), "") << "special token " << s;
      EXPECT_EQ(bit_difference(clone(rows.slice(0, 1)), before), "") << "beside special token " << s;
    }
    {
      Tape tape;
      Code first(ordinary.size(), 0);
      tape.backward(part->forward(codes_of({ordinary, first})), normal({2, hidden_size_}, DType::f64, 2));
    }
    const Tensor gradient = bench.parameters().find("part.special")->master.grad();
    for (int64_t i = 0; i < gradient.numel(); ++i)
      EXPECT_EQ(value_at(gradient, i) != 0, i < hidden_size_) << "gradient of special row " << i / hidden_size_;
    fill_zero(special);
    EXPECT_EQ(bit_difference((*this)({ordinary}), before), "");
    EXPECT_EQ(part->table(), nullptr);
  }

  Bench bench;
  std::unique_ptr<Embedding> part;

 private:
  int64_t hidden_size_;
};

/// What building the embedding says when tokens do not fit.
inline std::string refusal_of_width(const std::string& type, int64_t width, const std::string& options = "{}") {
  try {
    const CodeBench made(type, 16, width, options, Device::meta);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    return error.what();
  }
  return "accepted";
}

}  // namespace lithe::kit
