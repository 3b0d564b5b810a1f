#include "tests/parts/field/sparse_kit.h"

namespace lithe {
namespace {

// oracle: sparse.topk_importance
TEST(TopKImportance, AllKeysAreFullAttention) {
  expect_same_field("{type: topk_importance, keys: 9, soft_bias: false}", "full", true);
  expect_same_field("{type: topk_importance, keys: 9, soft_bias: false}", "full", false);
}

// oracle: sparse.topk_importance
TEST(TopKImportance, AKeyThatFellOutDoesNotComeBack) {
  const auto pairs = FieldAttention("{type: topk_importance, keys: 4}", true, 2).pairs(80);
  for (const auto& head : pairs)
    for (size_t i = 0; i < 80; ++i) {
      EXPECT_TRUE(head[i][i]);
      const auto seen = std::count(head[i].begin(), head[i].end(), 1);
      EXPECT_TRUE(seen == std::min<int64_t>(4, int64_t(i) + 1) || seen == 5) << i << " " << seen;
      for (size_t j = 0; j + 1 < i && i > 0; ++j) EXPECT_LE(head[i][j], head[i - 1][j]) << i << " " << j;
    }
}

// oracle: sparse.topk_importance
TEST(TopKImportance, Decodes) {
  expect_decodes("{type: topk_importance, keys: 5}");
  expect_decodes("{type: topk_importance, keys: 5, soft_bias: false}");
}

TEST(TopKImportance, KeepsScores) {
  expect_keeps_labels("{type: topk_importance, keys: 20}", 2 * 2 * 8, 2);  // and what they add to logits
  expect_keeps_labels("{type: topk_importance, keys: 20, soft_bias: false}", 8);
}

}  // namespace
}  // namespace lithe
