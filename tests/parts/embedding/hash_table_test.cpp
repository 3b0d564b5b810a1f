#include "tests/parts/embedding/code_bench.h"

namespace lithe {
namespace {

using kit::CodeBench;

// oracle: emb.hash_table
TEST(HashTable, CountsRowsTimesWidth) {
  const auto count = [](int64_t buckets) {
    return CodeBench("hash_table", 768, 2, cat("{num_buckets: ", buckets, "}"), Device::meta).hashed_parameters();
  };
  EXPECT_EQ(count(50265), 38'603'520);  // published 38.6M
  EXPECT_EQ(count(1038), 797'184);      // published 797.2K
  EXPECT_EQ(count(50000), 38'400'000);
}

TEST(HashTable, IsLookupWhereTheHashIsInjective) {
  CodeBench hashed("hash_table", 5, 2, "{num_buckets: 7}");
  kit::Bench bench;
  const auto lookup = bench.make<Embedding>("lookup", {.vocab_size = 7, .hidden_size = 5});
  kit::assign(bench["part.weight"], hashed["weight"]);
  const std::vector<uint32_t> buckets{3, 0, 6, 3};
  std::vector<kit::Code> codes;
  for (uint32_t b : buckets) codes.push_back({5, b});
  const Tensor dy = kit::normal({4, 5}, DType::f64, 2);
  for (int pass = 0; pass < 2; ++pass) {
    Tape tape;
    const Var a = hashed.part->forward(kit::codes_of(codes)), b = lookup->forward(kit::ids_of({3, 0, 6, 3}));
    EXPECT_EQ(kit::bit_difference(a.value(), b.value()), "");
    tape.backward(pass ? a : b, clone(dy));
  }
  EXPECT_EQ(kit::bit_difference(hashed.bench.parameters().find("part.weight")->master.grad(),
                                bench.parameters().find("part.weight")->master.grad()),
            "");
}

TEST(HashTable, WordsThatCollideShareTheirRowAndItsGradient) {
  CodeBench hashed("hash_table", 3, 2, "{num_buckets: 4}");
  const Tensor dy = kit::normal({2, 3}, DType::f64, 2);
  Tape tape;
  const Var y = hashed.part->forward(kit::codes_of({{5, 2}, {5, 2}}));
  EXPECT_EQ(kit::bit_difference(clone(y.value().slice(0, 1)), clone(y.value().slice(1, 2))), "");
  tape.backward(y, clone(dy));
  const Tensor gradient = hashed.bench.parameters().find("part.weight")->master.grad();
  for (int64_t c = 0; c < 3; ++c) EXPECT_EQ(value_at(gradient, 2 * 3 + c), value_at(dy, c) + value_at(dy, 3 + c));
}

// The loads of N buckets by n words have a chi-square with N - 1 degrees of freedom: mean N - 1, variance 2 (N - 1).
TEST(HashTable, BucketsOfMd5AreLoadedEvenly) {
  EXPECT_EQ(kit::md5("play"), (std::array<uint32_t, 4>{0xa3b34c08, 0x71dc2fd5, 0x1eec5559, 0xb68f709d}));  // E42
  const int64_t buckets = 200, words = 20000;
  CodeBench hashed("hash_table", 1, 2, cat("{num_buckets: ", buckets, "}"));
  for (int64_t i = 0; i < buckets; ++i) set_value(hashed["weight"], i, double(i));  // a row says which it is
  std::vector<kit::Code> codes;
  for (int64_t w = 0; w < words; ++w) {
    uint64_t rest = 0;
    for (uint32_t part : kit::md5(cat("word", w))) rest = (rest << 32 | part) % uint64_t(buckets);
    codes.push_back({5, uint32_t(rest)});
  }
  std::vector<double> load(size_t(buckets), 0);
  for (double row : kit::values(hashed(codes))) ++load[size_t(row)];
  double chi_square = 0;
  const double expected = double(words) / double(buckets);
  for (double n : load) chi_square += (n - expected) * (n - expected) / expected;
  EXPECT_NEAR(chi_square, double(buckets - 1), 4 * std::sqrt(2.0 * double(buckets - 1)));
}

TEST(HashTable, SpecialTokensBypassTheHash) {
  CodeBench("hash_table", 4, 2, "{num_buckets: 9}").expect_special_rows({5, 8});
}

TEST(HashTable, SaysWhatDoesNotFit) {
  EXPECT_EQ(kit::refusal_of_width("hash_table", 1),
            "embedding: hash_table reads tokens of 2 ints (a special and a bucket), the tokenizer's are 1; set "
            "data.tokenizer: {type: words, hash: md5, code: bucket, num_buckets: 50000}");
  const CodeBench hashed("hash_table", 4, 2, "{num_buckets: 9}");
  const auto error_of = [&](const Tensor& tokens) -> std::string {
    try {
      hashed.part->forward(tokens);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(error_of(kit::codes_of({{5, 0}, {5, 9}})), "hash_table: token 1 has bucket 9, outside 0 to 8");
  EXPECT_EQ(error_of(kit::codes_of({{5, ~0u}})), "hash_table: token 0 has bucket -1, outside 0 to 8");
  EXPECT_EQ(error_of(kit::codes_of({{6, 0}})),
            "embedding: code 0 begins with 6; it must be a special token, 0 to 4, or 5 for an ordinary one");
  EXPECT_EQ(error_of(kit::ids_of({5, 0})), "embedding: codes must be i32 [N,2], got i32[2]");
}

}  // namespace
}  // namespace lithe
