#include "tests/parts/field/sparse_kit.h"

namespace lithe {
namespace {

// oracle: sparse.hybrid_heads
TEST(PerHeadField, EachHeadHasItsOwn) {
  FieldAttention mixed("{type: per_head, fields: [{type: chunk, size: 4}, {type: local, window: 2}], heads: [1, 0]}",
                       true, 2);
  const auto pairs = mixed.pairs(9);
  EXPECT_EQ(pairs[0], FieldAttention("{type: local, window: 2}").pairs(9)[0]);
  EXPECT_EQ(pairs[1], FieldAttention("{type: chunk, size: 4}").pairs(9)[0]);
  expect_same_field("{type: per_head, fields: [{type: chunk, size: 4}]}", "{type: chunk, size: 4}", true);
  expect_same_field("{type: per_head, fields: [{type: local, window: 2}]}", "{type: local, window: 2}", true);
}

TEST(PerHeadField, Decodes) { expect_decodes("{type: per_head, fields: [{type: chunk, size: 20}]}"); }

TEST(PerHeadField, RefusesFieldsThatAreNotThere) {
  EXPECT_NE(kit::coded_error_of([] {
              FieldAttention("{type: per_head, fields: [full], heads: [1]}");
            }).find("2 per_head: there is no field 1"),
            std::string::npos);
}

TEST(PerHeadField, KeepsLabelsOfOneField) {
  const std::string lsh = "{type: lsh, rounds: 2, buckets: 4}";
  expect_keeps_labels(cat("{type: per_head, fields: [{type: local, window: 20}, ", lsh, "]}"), 2 * 2, 2);
  expect_keeps_labels(cat("{type: per_head, fields: [{type: sort, size: 6}, ", lsh, "]}"), 0, 2);
}

}  // namespace
}  // namespace lithe
