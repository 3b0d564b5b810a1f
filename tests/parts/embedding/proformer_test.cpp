#include "tests/parts/embedding/code_bench.h"

namespace lithe {
namespace {

using kit::CodeBench;

// oracle: baseline.proformer
TEST(ProFormer, IsTheProductOfBitsAndMatrix) {
  CodeBench proformer("proformer", 7, 15);
  const std::string bits = kit::random_bits(420, 1);
  EXPECT_EQ(kit::close(proformer({kit::code_of_bits(bits)}),
                       kit::product(kit::numbers_of_bits(bits), proformer["weight"]), 420),
            "");
}

TEST(ProFormer, IsLinearInTheBits) {
  CodeBench proformer("proformer", 7, 15);
  std::string left = kit::random_bits(420, 2), right = kit::random_bits(420, 3), both = left;
  for (size_t j = 0; j < 420; ++j) {
    if (left[j] == '1') right[j] = '0';  // disjoint, so that their sum is bits again
    if (right[j] == '1') both[j] = '1';
  }
  EXPECT_EQ(kit::close(proformer({kit::code_of_bits(both)}),
                       kit::sum(proformer({kit::code_of_bits(left)}), proformer({kit::code_of_bits(right)})), 840),
            "");
  EXPECT_EQ(kit::values(proformer({kit::code_of_bits(std::string(420, '0'))})), std::vector<double>(7, 0));
}

TEST(ProFormer, BitsBeyondTheLastAreNotRead) {
  CodeBench proformer("proformer", 7, 15);
  kit::Code code = kit::code_of_bits(kit::random_bits(420, 4));
  const Tensor before = proformer({code});
  code.back() |= 0x0fffffff;
  EXPECT_EQ(kit::bit_difference(proformer({code}), before), "");
}

TEST(ProFormer, CountsBitsTimesWidth) {
  EXPECT_EQ(CodeBench("proformer", 768, 15, "{}", Device::meta).hashed_parameters(), 322'560);
  EXPECT_EQ(CodeBench("proformer", 96, 15, "{}", Device::meta).hashed_parameters(), 420 * 96);
  EXPECT_EQ(CodeBench("proformer", 5, 3, "{bits: 40}", Device::meta).hashed_parameters(), 40 * 5);
}

TEST(ProFormer, SpecialTokensBypassTheHash) {
  CodeBench("proformer", 4, 15).expect_special_rows(kit::code_of_bits(kit::random_bits(420, 5)));
}

TEST(ProFormer, SaysWhatDoesNotFit) {
  EXPECT_EQ(kit::refusal_of_width("proformer", 5),
            "embedding: proformer reads tokens of 15 ints (a special and 420 bits), the tokenizer's are 5; set "
            "data.tokenizer: {type: words, hash: lsh, code: bits, bits: 420}");
}

}  // namespace
}  // namespace lithe
