#include "tests/parts/embedding/code_bench.h"

namespace lithe {
namespace {

using kit::CodeBench;

// With W = 0 and the identity for a codebook, e counts how often each row is named, over the groups.
std::vector<int64_t> rows_named(const kit::Code& code, int64_t bits, int64_t group_size) {
  const int64_t rows = int64_t(1) << group_size, groups = (bits + group_size - 1) / group_size;
  CodeBench pool("hash_pool", rows, int64_t(code.size()), cat("{bits: ", bits, ", group_size: ", group_size, "}"));
  kit::assign(pool["codebook"], kit::identity(rows));
  fill_zero(pool["weights"]);
  const Tensor e = pool({code});
  std::vector<int64_t> out;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t n = std::llround(value_at(e, row) * double(groups)); n > 0; --n) out.push_back(row);
  return out;
}

// oracle: emb.hash_pool
TEST(HashPool, GroupsOfBitsNameRows) {
  EXPECT_EQ(rows_named(kit::code_of_bits("101001000001"), 12, 4), (std::vector<int64_t>{1, 4, 10}));
  std::vector<int64_t> play{654, 820, 770, 113, 880, 765, 327, 748, 341, 411, 419, 880, 157};
  std::sort(play.begin(), play.end());
  EXPECT_EQ(rows_named(kit::md5_code("play"), 128, 10), play);
}

TEST(HashPool, WithoutWeightsIsTheMeanOfItsRowsInOrder) {
  CodeBench pool("hash_pool", 1, 2, "{bits: 12, group_size: 4}");
  const kit::Code code = kit::code_of_bits("101001000001");
  const auto b = [&](int64_t row) { return value_at(pool["codebook"], row); };
  fill_zero(pool["weights"]);
  EXPECT_NEAR(value_at(pool({code}), 0), (b(10) + b(4) + b(1)) / 3, 4 * 0x1p-53);
  for (int64_t j = 0; j < 3; ++j) {  // all weight on group j
    fill_zero(pool["weights"]);
    set_value(pool["weights"], j, 1000);
    EXPECT_EQ(value_at(pool({code}), 0), b(j == 0 ? 10 : j == 1 ? 4 : 1));
  }
}

TEST(HashPool, WeightsSumToOneInEveryChannel) {
  CodeBench pool("hash_pool", 6, 5);
  const Tensor row = kit::normal({1, 6}, DType::f64, 4);
  for (int64_t i = 0; i < pool["codebook"].numel(); ++i) set_value(pool["codebook"], i, value_at(row, i % 6));
  EXPECT_EQ(kit::close(pool({kit::md5_code("play")}), row, 32), "");
}

TEST(HashPool, PermutedGroupsWithTheirWeightsAreTheSame) {
  CodeBench pool("hash_pool", 6, 5, "{bits: 120, group_size: 10}");
  const std::string bits = kit::random_bits(120, 1);
  const std::vector<int64_t> order{3, 11, 0, 7, 5, 1, 2, 10, 4, 9, 8, 6};
  std::string permuted;
  for (int64_t j : order) permuted += bits.substr(size_t(10 * j), 10);
  const Tensor before = pool({kit::code_of_bits(bits)});
  kit::assign(pool["weights"], kit::rows_of(clone(pool["weights"]), order));
  EXPECT_EQ(kit::close(pool({kit::code_of_bits(permuted)}), before, 32), "");
}

TEST(HashPool, AConstantOnAColumnOfWeightsChangesNothing) {
  CodeBench pool("hash_pool", 6, 5);
  const Tensor before = pool({kit::md5_code("play")});
  for (int64_t j = 0; j < 13; ++j) set_value(pool["weights"], 6 * j + 2, value_at(pool["weights"], 6 * j + 2) + 0.75);
  EXPECT_EQ(kit::close(pool({kit::md5_code("play")}), before, 32), "");
}

TEST(HashPool, CountsCodebookAndWeights) {
  EXPECT_EQ(CodeBench("hash_pool", 768, 5, "{}", Device::meta).hashed_parameters(), 796'416);
  EXPECT_EQ(796'416 + 768, 797'184);  // published 797.2K: one more row
  EXPECT_EQ(CodeBench("hash_pool", 96, 5, "{group_size: 4}", Device::meta).hashed_parameters(), (32 + 16) * 96);
  EXPECT_EQ(CodeBench("hash_pool", 5, 3, "{bits: 64, group_size: 7}", Device::meta).hashed_parameters(),
            (10 + 128) * 5);
}

TEST(HashPool, StartsTruncated) {
  kit::Bench bench;
  const auto part = bench.make<Embedding>("hash_pool", {.vocab_size = 6, .hidden_size = 64, .token_width = 5});
  for (const char* name : {"part.codebook", "part.weights"}) {
    double largest = 0;
    for (double v : kit::values(bench[name])) largest = std::max(largest, std::abs(v));
    EXPECT_LE(largest, 0.04) << name;
    EXPECT_GT(largest, 0.03) << name;
  }
}

// As models are loaded for inference: no f32 copy of the parameters.
TEST(HashPool, RunsWithParametersInBf16) {
  CodeBench exact("hash_pool", 40, 5);
  kit::Bench bench(DType::bf16, DType::bf16);
  const auto part = bench.make<Embedding>("hash_pool", {.vocab_size = 6, .hidden_size = 40, .token_width = 5});
  for (Parameter& p : exact.bench.parameters().all()) {
    kit::assign(bench[p.name], p.master.value());
    kit::assign(p.master.value(), bench[p.name]);  // the same rounded numbers
  }
  const Tensor codes = kit::codes_of({kit::md5_code("play"), kit::md5_code("plays")});
  EXPECT_EQ(kit::close(part->forward(codes).value(), exact.part->forward(codes).value(), 8), "");
}

TEST(HashPool, SpecialTokensBypassTheHash) { CodeBench("hash_pool", 4, 5).expect_special_rows(kit::md5_code("play")); }

TEST(HashPool, SaysWhatDoesNotFit) {
  EXPECT_EQ(kit::refusal_of_width("hash_pool", 1),
            "embedding: hash_pool reads tokens of 5 ints (a special and 128 bits), the tokenizer's are 1; set "
            "data.tokenizer: {type: words, hash: md5, code: bits, bits: 128}");
  EXPECT_NE(kit::refusal_of_width("hash_pool", 5, "{group_size: 25}").find("group_size"), std::string::npos);
}

}  // namespace
}  // namespace lithe
