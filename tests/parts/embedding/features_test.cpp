#include "tests/parts/embedding/code_bench.h"

namespace lithe {
namespace {

using kit::CodeBench;

kit::Code code_of(const std::vector<float>& numbers) {
  kit::Code out{5};
  for (const float number : numbers) out.push_back(std::bit_cast<uint32_t>(number));
  return out;
}

TEST(Features, AreALinearMapOfTheNumbers) {
  CodeBench features("features", 7, 4, "{num_features: 3}");
  const std::vector<float> numbers{0.5f, -2.0f, 1e-3f};
  fill_zero(features["projection.bias"]);
  const Tensor row = tensor_of({1, 3}, std::vector<double>(numbers.begin(), numbers.end()));
  EXPECT_EQ(kit::close(features({code_of(numbers)}), kit::product(row, features["projection.weight"]), 3), "");
}

TEST(Features, SpecialTokensHaveNoBias) {
  CodeBench features("features", 4, 9);
  for (int64_t j = 0; j < 4; ++j) features["projection.bias"].data<double>()[j] = 1;
  features.expect_special_rows(code_of(std::vector<float>(8, 0.25f)));
}

TEST(Features, CountsNumbersTimesWidthAndABias) {
  EXPECT_EQ(CodeBench("features", 96, 81, "{num_features: 80}", Device::meta).hashed_parameters(), 80 * 96 + 96);
}

TEST(Features, SaysWhatDoesNotFit) {
  EXPECT_EQ(kit::refusal_of_width("features", 5),
            "embedding: features reads tokens of 9 ints (a special and 8 numbers), the tokenizer's are 5; set "
            "data.tokenizer: {type: features, num_features: 8}");
}

}  // namespace
}  // namespace lithe
