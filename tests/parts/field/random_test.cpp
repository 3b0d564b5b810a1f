#include "tests/parts/field/sparse_kit.h"

namespace lithe {
namespace {

// oracle: sparse.random
TEST(RandomField, DrawsWhatAPositionKeeps) {
  FieldAttention random("{type: random, tokens: 5}", true, 2);
  const auto few = random.pairs(50), many = random.pairs(100);
  EXPECT_NE(few[0], few[1]);
  for (size_t head = 0; head < 2; ++head)
    for (size_t i = 0; i < 50; ++i) {
      EXPECT_TRUE(std::equal(few[head][i].begin(), few[head][i].end(), many[head][i].begin())) << i;
      EXPECT_EQ(std::count(few[head][i].begin(), few[head][i].end(), 1), std::min<int64_t>(5, int64_t(i)) + 1);
    }
  EXPECT_EQ(many, FieldAttention("{type: random, tokens: 5}", true, 2).pairs(100));
  EXPECT_NE(many, FieldAttention("{type: random, tokens: 5, seed: 1}", true, 2).pairs(100));
  expect_same_field("{type: random, tokens: 9}", "full", true);
  expect_same_field("{type: random, tokens: 9}", "full", false);
}

// Every earlier token is drawn equally often: 400 queries of 5 of at least 200 tokens. Counts of tokens 1-100 and
// 101-200 differ by at most five standard deviations. oracle: sparse.random
TEST(RandomField, DrawsEvenly) {
  const auto pairs = FieldAttention("{type: random, tokens: 5}").pairs(390)[0];
  double near = 0, far = 0;
  for (size_t i = 200; i < 390; ++i)
    for (size_t j = 0; j < 200; ++j) (j < 100 ? far : near) += pairs[i][j];
  EXPECT_LE(std::abs(near - far), 5 * std::sqrt(near + far));
}

TEST(RandomField, Decodes) { expect_decodes("{type: random, tokens: 6}"); }

}  // namespace
}  // namespace lithe
