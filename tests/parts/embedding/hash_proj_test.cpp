#include "tests/parts/embedding/code_bench.h"

namespace lithe {
namespace {

using kit::CodeBench;

double correlation(const std::string& bits, const std::vector<double>& w) {
  CodeBench proj("hash_proj", 1, 1 + (int64_t(bits.size()) + 31) / 32, cat("{bits: ", bits.size(), "}"));
  kit::assign(proj["weight"], w);
  return value_at(proj({kit::code_of_bits(bits)}), 0);
}

// oracle: emb.hash_proj
TEST(HashProj, IsPearsonsCorrelation) {
  EXPECT_NEAR(correlation("1010", {1, 2, 3, 4}), -0.447214, 5e-7);
  EXPECT_NEAR(correlation("1010", {1, 0, 1, 0}), 1, 8 * 0x1p-53);
  EXPECT_NEAR(correlation("1010", {0, 1, 0, 1}), -1, 8 * 0x1p-53);
}

TEST(HashProj, IgnoresShiftAndPositiveScaleOfItsVectors) {
  const std::string bits = kit::random_bits(128, 1);
  std::vector<double> w = kit::values(kit::normal({128}, DType::f64, 2)), moved = w, turned = w;
  for (size_t j = 0; j < w.size(); ++j) {
    moved[j] = 2.5 * w[j] + 0.7;
    turned[j] = -0.3 * w[j] + 0.1;
  }
  const double e = correlation(bits, w);
  EXPECT_NEAR(correlation(bits, moved), e, 512 * 0x1p-53);
  EXPECT_NEAR(correlation(bits, turned), -e, 512 * 0x1p-53);
}

TEST(HashProj, ComplementaryBitsGiveTheNegative) {
  CodeBench proj("hash_proj", 9, 5);
  const std::string bits = kit::random_bits(128, 3);
  std::string complement = bits;
  for (char& bit : complement) bit = bit == '1' ? '0' : '1';
  const Tensor e = proj({kit::code_of_bits(bits)}), negative = proj({kit::code_of_bits(complement)});
  for (int64_t i = 0; i < 9; ++i) {
    EXPECT_NEAR(value_at(negative, i), -value_at(e, i), 512 * 0x1p-53);
    EXPECT_LE(std::abs(value_at(e, i)), 1);
    EXPECT_NE(value_at(e, i), 0);
  }
}

TEST(HashProj, ConstantBitsOrVectorsGiveZero) {
  CodeBench proj("hash_proj", 3, 2, "{bits: 32}");
  EXPECT_EQ(kit::values(proj({{5, 0}, {5, ~0u}})), std::vector<double>(6, 0));
  for (int64_t j = 0; j < 32; ++j) set_value(proj["weight"], 3 * j + 1, 0.25);
  const Tensor y = proj({{5, 0x12345678}});
  EXPECT_EQ(value_at(y, 1), 0);
  EXPECT_NE(value_at(y, 0), 0);
}

TEST(HashProj, CountsOneVectorAChannel) {
  EXPECT_EQ(CodeBench("hash_proj", 768, 5, "{}", Device::meta).hashed_parameters(), 98'304);
  EXPECT_EQ(98'304 + 768, 99'072);  // published 99.1K: one more row
  EXPECT_EQ(CodeBench("hash_proj", 96, 5, "{}", Device::meta).hashed_parameters(), 128 * 96);
  EXPECT_EQ(CodeBench("hash_proj", 5, 3, "{bits: 40}", Device::meta).hashed_parameters(), 40 * 5);
}

TEST(HashProj, StartsUniform) {
  kit::Bench bench;
  const auto part = bench.make<Embedding>("hash_proj", {.vocab_size = 6, .hidden_size = 64, .token_width = 5});
  double largest = 0;
  for (double v : kit::values(bench["part.weight"])) largest = std::max(largest, std::abs(v));
  EXPECT_LE(largest, (1 + 1e-12) / std::sqrt(128.0));
  EXPECT_GE(largest, 0.99 / std::sqrt(128.0));
}

// As models are loaded for inference: no f32 copy of the parameters.
TEST(HashProj, RunsWithParametersInBf16) {
  CodeBench exact("hash_proj", 40, 5);
  kit::Bench bench(DType::bf16, DType::bf16);
  const auto part = bench.make<Embedding>("hash_proj", {.vocab_size = 6, .hidden_size = 40, .token_width = 5});
  for (Parameter& p : exact.bench.parameters().all()) {
    kit::assign(bench[p.name], p.master.value());
    kit::assign(p.master.value(), bench[p.name]);  // the same rounded numbers
  }
  const Tensor codes = kit::codes_of({kit::md5_code("play"), kit::md5_code("plays")});
  EXPECT_EQ(kit::close(part->forward(codes).value(), exact.part->forward(codes).value(), 8), "");
}

TEST(HashProj, SpecialTokensBypassTheHash) { CodeBench("hash_proj", 4, 5).expect_special_rows(kit::md5_code("play")); }

TEST(HashProj, SaysWhatDoesNotFit) {
  EXPECT_EQ(kit::refusal_of_width("hash_proj", 1, "{bits: 64}"),
            "embedding: hash_proj reads tokens of 3 ints (a special and 64 bits), the tokenizer's are 1; set "
            "data.tokenizer: {type: words, hash: md5, code: bits, bits: 64}");
}

}  // namespace
}  // namespace lithe
