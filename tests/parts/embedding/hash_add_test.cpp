#include "tests/parts/embedding/code_bench.h"

namespace lithe {
namespace {

using kit::CodeBench;

// oracle: emb.hash_add
TEST(HashAdd, IsTheSumOfTheRowsOfItsBits) {
  CodeBench add("hash_add", 7, 5);
  const std::string bits = kit::random_bits(128, 1);
  const Tensor tau = kit::numbers_of_bits(bits), rest = clone(tau);
  for (int64_t j = 0; j < 128; ++j) set_value(rest, j, 1 - value_at(tau, j));
  const Tensor w0 = clone(add["weight"].slice(0, 128)), w1 = clone(add["weight"].slice(128, 256));
  const Tensor want = kit::sum(kit::product(tau, w1), kit::product(rest, w0));
  for (int64_t i = 0; i < 7; ++i) set_value(want, i, value_at(want, i) / 11.313708498984761);
  EXPECT_EQ(kit::close(add({kit::code_of_bits(bits)}), want, 128), "");
}

TEST(HashAdd, ABitChangesTheRowByItsTwoRowsDifference) {
  CodeBench add("hash_add", 7, 5);
  const std::string bits = kit::random_bits(128, 2);
  const Tensor before = add({kit::code_of_bits(bits)});
  for (size_t j : {0u, 31u, 32u, 127u}) {
    std::string flipped = bits;
    flipped[j] = bits[j] == '1' ? '0' : '1';
    const Tensor after = add({kit::code_of_bits(flipped)}), want = clone(before);
    for (int64_t c = 0; c < 7; ++c)
      set_value(want, c,
                value_at(before, c) + (bits[j] == '1' ? -1 : 1) *
                                          (value_at(add["weight"], int64_t(128 + j) * 7 + c) -
                                           value_at(add["weight"], int64_t(j) * 7 + c)) /
                                          std::sqrt(128.0));
    EXPECT_EQ(kit::close(after, want, 256), "") << "bit " << j;
  }
}

TEST(HashAdd, EqualRowsGiveTheRootOfTheBitsTimesOne) {
  CodeBench add("hash_add", 3, 5);
  for (int64_t i = 0; i < add["weight"].numel(); ++i) set_value(add["weight"], i, double(i % 3) - 1.5);
  EXPECT_EQ(
      kit::close(add({kit::md5_code("play")}),
                 kit::tensor_f64({1, 3}, {-1.5 * std::sqrt(128.0), -0.5 * std::sqrt(128.0), 0.5 * std::sqrt(128.0)}),
                 128),
      "");
}

TEST(HashAdd, IsLinearInItsRows) {
  CodeBench add("hash_add", 7, 5);
  const std::vector<kit::Code> codes{kit::md5_code("play"), kit::md5_code("plays")};
  const Tensor x = kit::normal({256, 7}, DType::f64, 5), y = kit::normal({256, 7}, DType::f64, 6), mixed = clone(x);
  for (int64_t i = 0; i < x.numel(); ++i) set_value(mixed, i, 2 * value_at(x, i) - 3 * value_at(y, i));
  const auto rows = [&](const Tensor& table) {
    kit::assign(add["weight"], table);
    return add(codes);
  };
  const Tensor fx = rows(x), fy = rows(y), want = clone(fx);
  for (int64_t i = 0; i < want.numel(); ++i) set_value(want, i, 2 * value_at(fx, i) - 3 * value_at(fy, i));
  EXPECT_EQ(kit::close(rows(mixed), want, 512), "");
}

TEST(HashAdd, EqualBitsGiveEqualRows) {
  CodeBench add("hash_add", 7, 5);
  const Tensor y = add({kit::md5_code("play"), kit::md5_code("plays"), kit::md5_code("play")});
  EXPECT_EQ(kit::bit_difference(clone(y.slice(0, 1)), clone(y.slice(2, 3))), "");
  EXPECT_NE(kit::bit_difference(clone(y.slice(0, 1)), clone(y.slice(1, 2))), "");
}

TEST(HashAdd, CountsTwoRowsABit) {
  EXPECT_EQ(CodeBench("hash_add", 768, 5, "{}", Device::meta).hashed_parameters(), 196'608);
  EXPECT_EQ(196'608 + 768, 197'376);  // published 197.4K: one more row
  EXPECT_EQ(CodeBench("hash_add", 96, 5, "{}", Device::meta).hashed_parameters(), 2 * 128 * 96);
  EXPECT_EQ(CodeBench("hash_add", 5, 3, "{bits: 40}", Device::meta).hashed_parameters(), 2 * 40 * 5);
}

TEST(HashAdd, SpecialTokensBypassTheHash) { CodeBench("hash_add", 4, 5).expect_special_rows(kit::md5_code("play")); }

TEST(HashAdd, SaysWhatDoesNotFit) {
  EXPECT_EQ(kit::refusal_of_width("hash_add", 2),
            "embedding: hash_add reads tokens of 5 ints (a special and 128 bits), the tokenizer's are 2; set "
            "data.tokenizer: {type: words, hash: md5, code: bits, bits: 128}");
}

}  // namespace
}  // namespace lithe
