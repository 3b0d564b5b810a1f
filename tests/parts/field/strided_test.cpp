#include "tests/parts/field/sparse_kit.h"

namespace lithe {
namespace {

// oracle: sparse.strided
TEST(StridedField, LiesBetweenChunksAndASpan) {
  for (const bool causal : {true, false}) {
    expect_same_field("{type: strided, window: 4, stride: 4}", "{type: chunk, size: 4}", causal);
    if (causal) expect_same_field("{type: strided, window: 4, stride: 1}", "{type: span, left: 3}", true);
  }
  FieldAttention strided("{type: strided, window: 6, stride: 5}");
  EXPECT_EQ(strided.seen(20, 12), (std::vector<int>{10, 11, 12}));
  for (int64_t i = 11; i <= 15; ++i) EXPECT_EQ(int64_t(strided.seen(20, i).size()), 2 + i - 11) << i;  // w - s + 1 to w
}

// oracle: sparse.strided
TEST(StridedField, EveryThirdToken) {
  EXPECT_EQ(FieldAttention("{type: strided, form: every, stride: 3}").seen(9, 8), (std::vector<int>{2, 5, 8}));
}

TEST(StridedField, Decodes) {
  expect_decodes("{type: strided, window: 30, stride: 7}");
  expect_decodes("{type: strided, form: every, stride: 7}");
}

TEST(StridedField, RefusesGaps) {
  EXPECT_NE(
      kit::coded_error_of([] { FieldAttention("{type: strided, window: 3, stride: 4}"); }).find("2 strided: stride 4"),
      std::string::npos);
}

}  // namespace
}  // namespace lithe
