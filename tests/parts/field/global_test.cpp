#include "tests/parts/field/sparse_kit.h"

namespace lithe {
namespace {

// oracle: sparse.global
TEST(GlobalField, TheFirstTokensAreSeenByAll) {
  EXPECT_EQ(FieldAttention("{type: global, tokens: 1}").count(8), 15);
  expect_same_field("{type: global, tokens: 9}", "full", true);
  FieldAttention encoder("{type: global, tokens: 2}", false),
      one_way("{type: global, tokens: 2, symmetric: false}", false);
  EXPECT_EQ(encoder.seen(6, 2).size(), 6u);
  EXPECT_EQ(encoder.seen(6, 5), (std::vector<int>{1, 2, 5}));
  EXPECT_EQ(one_way.seen(6, 2), (std::vector<int>{1, 2}));
}

TEST(GlobalField, Decodes) { expect_decodes("{type: global, tokens: 3}"); }

TEST(GlobalField, TheCacheKeepsTheGlobalTokens) {
  expect_decodes("{type: global, tokens: 3}");
  EXPECT_EQ(FieldAttention("{type: global, tokens: 3}").mixer->state_bytes({500}, DType::f64), 3 * 2 * 8 * 8);
  expect_decodes("{type: union, fields: [{type: global, tokens: 3}, {type: span, left: 9}]}");
}

}  // namespace
}  // namespace lithe
