#include "tests/parts/field/sparse_kit.h"

namespace lithe {
namespace {

// oracle: sparse.span, mem.window
TEST(SpanField, CountsPairsAndKnowsItsEnds) {
  EXPECT_EQ(FieldAttention("{type: span, left: 2}").count(8), 21);
  expect_same_field("{type: span, left: 20}", "full", true);
  expect_same_field("{type: span, left: 20, right: 20}", "full", false);
  expect_same_field("{type: span, left: 2}", "{type: local, window: 3}", true);
  expect_same_field("{type: span, left: 2}", "{type: local, window: 3}", false);
  EXPECT_EQ(FieldAttention("{type: span, left: 1, right: 2}", false).seen(9, 5), (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(FieldAttention("{type: span, left: 0}").count(8), 8);
}

TEST(SpanField, DecodesWithACacheOfItsLength) {
  expect_decodes("{type: span, left: 39}");
  FieldAttention attention("{type: span, left: 39}");
  EXPECT_EQ(attention.mixer->state_bytes({100000}, DType::f64), 39 * 2 * 8 * 8);
}

// The window counts the source's tokens; where it is behind them, nothing is seen and the row is 0.
// oracle: sparse.span
TEST(SpanField, CrossesByPlace) {
  EXPECT_EQ(FieldCrossing("{type: span, left: 1, right: 2}").seen(5, 9, 4), (std::vector<int>{3, 4, 5, 6}));
  EXPECT_EQ(FieldCrossing("{type: span, left: 1, right: 2}").seen(5, 4, 5), (std::vector<int>{4}));
  EXPECT_EQ(FieldCrossing("{type: span, left: 1}").seen(8, 4, 8), (std::vector<int>{}));
  EXPECT_EQ(FieldCrossing("{type: local, window: 2}").seen(5, 9, 4), (std::vector<int>{3, 4, 5}));
  EXPECT_EQ(FieldCrossing("{type: chunk, size: 3}").seen(5, 9, 4), (std::vector<int>{4, 5, 6}));
  EXPECT_EQ(FieldCrossing("{type: dilated, window: 2}").seen(5, 9, 4), (std::vector<int>{2, 4, 6}));
  EXPECT_EQ(FieldCrossing("{type: global, tokens: 2}").seen(5, 9, 4), (std::vector<int>{1, 2, 4}));
  EXPECT_EQ(FieldCrossing("{type: random, tokens: 3}").seen(5, 9, 4).size(), 4u);
  EXPECT_EQ(FieldCrossing("{type: union, fields: [{type: span, left: 0}, {type: global, tokens: 2}]}").seen(5, 9, 4),
            (std::vector<int>{1, 2, 4}));
}

TEST(SpanField, RefusesTheFuture) {
  EXPECT_NE(kit::coded_error_of([] { FieldAttention("{type: span, right: 1}"); }).find("2 span: right 1 tokens"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
