#include "tests/parts/field/sparse_kit.h"

namespace lithe {
namespace {

// oracle: sparse.sort
TEST(SortField, AChunkOfAllTokensIsFullAttention) {
  expect_same_field("{type: sort, size: 9}", "full", true);
  expect_same_field("{type: sort, size: 9}", "full", false);
}

// The whole sees no more than one chunk and the token itself, and two with `previous`.
// oracle: sparse.sort
TEST(SortField, QueriesSeeAChunk) {
  for (const bool causal : {true, false}) {
    const auto one = FieldAttention("{type: sort, size: 5}", causal).pairs(60)[0],
               two = FieldAttention("{type: sort, size: 5, previous: true}", causal).pairs(60)[0];
    for (size_t i = 0; i < 60; ++i) {
      EXPECT_LE(std::count(one[i].begin(), one[i].end(), 1), 6);
      EXPECT_LE(std::count(two[i].begin(), two[i].end(), 1), 11);
      for (size_t j = 0; j < 60; ++j) EXPECT_LE(one[i][j], two[i][j]);
    }
  }
}

// Permuted rows give permuted rows.
// oracle: sparse.sort
TEST(SortField, TheOrderOfTheInputDoesNotMatter) {
  FieldAttention sort("{type: sort, size: 4}", false);
  const int64_t T = 30;
  const Tensor x = kit::normal({T, 8}, DType::f64, 1), y = sort(x), turned = empty({T, 8}, DType::f64);
  for (int64_t i = 0; i < T; ++i) copy_into(turned.slice(i, i + 1), x.slice((i * 7 + 3) % T, (i * 7 + 3) % T + 1));
  const Tensor z = sort(turned);
  for (int64_t i = 0; i < T; ++i)
    EXPECT_LE(kit::largest_difference(clone(z.slice(i, i + 1)), clone(y.slice((i * 7 + 3) % T, (i * 7 + 3) % T + 1))),
              1e-12)
        << i;
}

TEST(SortField, Decodes) { expect_decodes("{type: sort, size: 6, previous: true}"); }

// u is one vector for all heads, and learns by what it adds to logits.
// oracle: sparse.sort
TEST(SortField, LearnsItsScore) {
  const std::string learned = "{type: sort, size: 9, score: learned, soft_bias: false}";
  expect_same_field(learned, "full", true);
  expect_same_field(learned, "full", false);
  FieldAttention sort("{type: sort, size: 4, score: learned}", true, 2);
  EXPECT_EQ(sort.bench["part.field.direction"].shape(), (Shape{4, 1}));
  expect_decodes("{type: sort, size: 6, score: learned}");
  expect_decodes(learned);
}

TEST(SortField, KeepsScores) {
  expect_keeps_labels("{type: sort, size: 6, previous: true}", 2 * 8, 2);
  expect_keeps_labels("{type: sort, size: 64}", 8);
}

}  // namespace
}  // namespace lithe
