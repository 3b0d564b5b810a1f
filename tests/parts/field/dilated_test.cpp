#include "tests/parts/field/sparse_kit.h"

namespace lithe {
namespace {

// oracle: sparse.dilated
TEST(DilatedField, LeavesGaps) {
  EXPECT_EQ(FieldAttention("{type: dilated, window: 3, gap: 1}").count(8), 18);
  expect_same_field("{type: dilated, window: 3, gap: 0}", "{type: span, left: 2}", true);
  expect_same_field("{type: dilated, window: 3, gap: 0}", "{type: span, left: 2, right: 2}", false);
  const auto pairs = FieldAttention("{type: dilated, window: 3, gap: 1}").pairs(9)[0];
  for (size_t i = 0; i < 9; ++i)
    for (size_t j = 0; j < 9; ++j) EXPECT_TRUE((i + j) % 2 == 0 || !pairs[i][j]);
}

TEST(DilatedField, Decodes) { expect_decodes("{type: dilated, window: 10, gap: 4}"); }

}  // namespace
}  // namespace lithe
