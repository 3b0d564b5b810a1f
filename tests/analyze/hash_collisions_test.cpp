#include "lithe/analyze/hash_collisions.h"

#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe::analyze {
namespace {

TokenStore text_of(const std::vector<std::vector<int32_t>>& documents) {
  return TokenStore::from_documents(documents, {.vocab_size = 11});
}

ModelConfig config(const std::string& more) {
  return kit::model_config(
      "{vocab_size: 11, hidden_size: 8, num_hidden_layers: 1, max_position_embeddings: 16, mixer: {type: attention, "
      "num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 8}}",
      more);
}

// With one row, all that differ share it; with many, each has its own.
TEST(HashCollisions, CountTheNgramsOfEachTable) {
  const TokenStore text = text_of({{1, 2, 1, 2}, {1}});
  const ModelConfig memory = config(
      "layers: {memory: {sub_layers: [{mixer: {type: engram, max_ngram_size: 2, n_head_per_ngram: 2, "
      "n_embed_per_ngram: "
      "2, num_buckets: 1009}}, mixer, ffn]}}, layer_types: [memory]");
  const std::vector<HashTableUse> uses = hash_table_uses(memory, text);
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].part, "layers.0.mixer");
  EXPECT_EQ(uses[0].what, "2-grams, hash 1");
  EXPECT_EQ(uses[0].rows, 1009);
  EXPECT_EQ(uses[1].rows, 1013);
  for (const HashTableUse& use : uses) {  // (none, 1), (1, 2), (2, 1)
    EXPECT_EQ(use.distinct, 3);
    EXPECT_EQ(use.used, 3);
    EXPECT_EQ(use.sharing, 0);
    EXPECT_EQ(use.all_alike, 0);
  }
  const std::vector<HashTableUse> one =
      hash_table_uses(config("embedding: {type: byte_ngrams, group_sizes: [2], num_buckets: 1}"), text);
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].distinct, 3);
  EXPECT_EQ(one[0].used, 1);
  EXPECT_EQ(one[0].sharing, 3);
  EXPECT_EQ(one[0].all_alike, 3);
}

TEST(HashCollisions, CandidatesShareCodesAndNeverAll) {
  const std::vector<HashTableUse> uses = hash_table_uses(
      config("head: {type: hash_codes, num_tables: 3, num_codes: 3}, tie_word_embeddings: false"), text_of({{1}}));
  ASSERT_EQ(uses.size(), 3u);
  for (const HashTableUse& use : uses) {
    EXPECT_EQ(use.distinct, 11);
    EXPECT_LE(use.used, 3);
    EXPECT_EQ(use.all_alike, 0);
  }
  EXPECT_TRUE(hash_table_uses(config(""), text_of({{1}})).empty());
  const std::vector<HashTableUse> sums = hash_table_uses(
      config("embedding: {type: hash_sum, num_tables: 3, num_codes: 3}, tie_word_embeddings: false"), text_of({{1}}));
  ASSERT_EQ(sums.size(), 3u);
  EXPECT_EQ(sums[0].part, "embedding");
  EXPECT_EQ(sums[0].used, uses[0].used);  // the same hashes
}

}  // namespace
}  // namespace lithe::analyze
