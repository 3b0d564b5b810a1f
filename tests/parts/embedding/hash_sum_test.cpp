#include <gtest/gtest.h>

#include "lithe/ops/candidate_scores.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

TEST(HashSumEmbedding, IsTheSumOfTheRowsOfItsCodes) {
  kit::Bench bench;
  const auto part =
      bench.make<Embedding>("hash_sum", {.vocab_size = 9, .hidden_size = 3}, "{num_tables: 2, num_codes: 4, seed: 5}");
  kit::randomise(bench.parameters(), 1);
  EXPECT_EQ(bench.parameters().count(), 8 * 3);
  const std::vector<int> ids{0, 8, 3, 3};
  const Tensor got = part->forward(kit::ids_of(ids)).value(), codes = hashed_codes(9, 2, 4, 5, Device::cpu);
  for (int64_t n = 0; n < 4; ++n)
    for (int64_t c = 0; c < 3; ++c) {
      const int32_t* code = codes.data<int32_t>() + ids[size_t(n)] * 2;
      EXPECT_NEAR(
          value_at(got, n * 3 + c),
          value_at(bench["part.weight"], code[0] * 3 + c) + value_at(bench["part.weight"], (4 + code[1]) * 3 + c),
          1e-14);
    }
}

// A decoder whose parameters do not grow with the vocabulary.
TEST(HashSumEmbedding, WithCodesAsOutputNoParameterIsOfTheVocabulary) {
  const auto parameters = [](int64_t vocabulary) {
    const Model model(
        kit::model_config("{hidden_size: 8, num_hidden_layers: 1, max_position_embeddings: 16, mixer: {type: "
                          "attention, num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 8}, "
                          "embedding: {type: hash_sum}, head: {type: hash_codes}, tie_word_embeddings: false}",
                          cat("vocab_size: ", vocabulary)),
        kit::kMeta);
    return model.parameters().count();
  };
  EXPECT_EQ(parameters(100), parameters(50000));
}

TEST(HashSumEmbedding, RefusesCodesThatDoNotSuffice) {
  kit::Bench bench;
  EXPECT_THROW(bench.make<Embedding>("hash_sum", {.vocab_size = 9, .hidden_size = 3}, "{num_tables: 3, num_codes: 2}"),
               Error);
}

}  // namespace
}  // namespace lithe
