#include "tests/parts/embedding/code_bench.h"

namespace lithe {
namespace {

using kit::CodeBench;

// oracle: baseline.canine_hash
TEST(CanineHash, ConcatenatesTheRowsOfEightTables) {
  CodeBench canine("canine_hash", 16, 2, "{num_buckets: 50}");
  const int64_t primes[] = {31, 43, 59, 61, 73, 97, 103, 113};
  for (int64_t c : {int64_t('a'), int64_t(0), int64_t(0x10ffff)}) {
    const Tensor e = canine({{5, uint32_t(c)}});
    for (int64_t k = 0; k < 8; ++k)
      for (int64_t i = 0; i < 2; ++i)
        EXPECT_EQ(value_at(e, 2 * k + i), value_at(canine["weight"], (50 * k + (c + 1) * primes[k] % 50) * 2 + i))
            << "code point " << c << ", table " << k;
  }
}

TEST(CanineHash, CodePointsWithEqualHashesAreEqual) {
  CodeBench canine("canine_hash", 16, 2, "{num_buckets: 50}");
  const Tensor e = canine({{5, 97}, {5, 147}, {5, 98}});
  EXPECT_EQ(kit::bit_difference(clone(e.slice(0, 1)), clone(e.slice(1, 2))), "");
  EXPECT_NE(kit::bit_difference(clone(e.slice(0, 1)), clone(e.slice(2, 3))), "");
}

TEST(CanineHash, CountsBucketsTimesWidth) {
  EXPECT_EQ(CodeBench("canine_hash", 768, 2, "{}", Device::meta).hashed_parameters(), 12'288'000);
  EXPECT_EQ(CodeBench("canine_hash", 96, 2, "{num_hash_functions: 4}", Device::meta).hashed_parameters(), 16'000 * 96);
  EXPECT_EQ(CodeBench("canine_hash", 32, 2, "{num_buckets: 77}", Device::meta).hashed_parameters(), 77 * 32);
}

TEST(CanineHash, SpecialTokensBypassTheHash) {
  CodeBench("canine_hash", 8, 2, "{num_buckets: 9}").expect_special_rows({5, 'x'});
}

TEST(CanineHash, SaysWhatDoesNotFit) {
  EXPECT_EQ(kit::refusal_of_width("canine_hash", 1),
            "embedding: canine_hash reads tokens of 2 ints (a special and a code point), the tokenizer's are 1; set "
            "data.tokenizer: {type: characters}");
  EXPECT_EQ(kit::refusal_of_width("canine_hash", 2, "{num_hash_functions: 5}"),
            "embedding: canine_hash: hidden_size 16 must be a multiple of num_hash_functions 5; change one of them");
  const CodeBench canine("canine_hash", 8, 2, "{num_buckets: 9}");
  try {
    canine({{5, 'a'}, {5, 0x110000}});
    FAIL() << "took what is no code point";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()), "code_point_ids: token 1 is 1114112, which is no code point (0 to 1114111)");
  }
}

}  // namespace
}  // namespace lithe
