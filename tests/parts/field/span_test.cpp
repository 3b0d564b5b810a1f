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
  EXPECT_LE(attention.mixer->state_bytes({100000}, DType::f64), (40 + 63) * 2 * 8 * 8);
}

TEST(SpanField, RefusesTheFuture) {
  EXPECT_NE(kit::coded_error_of([] { FieldAttention("{type: span, right: 1}"); }).find("2 span: right 1 tokens"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
