#include "tests/parts/field/sparse_kit.h"

namespace lithe {
namespace {

// oracle: sparse.hybrid_union, sparse.field
TEST(UnionField, ShowsWhatSomeShow) {
  expect_same_field("{type: union, fields: [{type: span, left: 1}, full]}", "full", true);
  expect_same_field("{type: union, fields: [{type: span, left: 2}, {type: local, window: 3}]}", "{type: span, left: 2}",
                    true);
  expect_same_field("{type: union, fields: [global, {type: span, left: 2}]}",
                    "{type: union, fields: [{type: span, left: 2}, global]}", false);
  // BigBird: what each of them shows, and no more.
  const std::string span = "{type: span, left: 2}", global = "{type: global, tokens: 2}",
                    random = "{type: random, tokens: 3}";
  FieldAttention both("{type: union, fields: [" + span + ", " + global + ", " + random + "]}", true, 2);
  const auto all = both.pairs(70), a = FieldAttention(span, true, 2).pairs(70),
             b = FieldAttention(global, true, 2).pairs(70), c = FieldAttention(random, true, 2).pairs(70);
  for (size_t h = 0; h < 2; ++h)
    for (size_t i = 0; i < 70; ++i)
      for (size_t j = 0; j < 70; ++j) EXPECT_EQ(all[h][i][j], a[h][i][j] || b[h][i][j] || c[h][i][j]) << i << " " << j;
}

TEST(UnionField, Decodes) {
  expect_decodes("{type: union, fields: [{type: span, left: 9}, {type: dilated, window: 5, gap: 3}]}");
  expect_decodes("{type: union, fields: [{type: span, left: 9}, {type: global, tokens: 2}]}");
  expect_decodes("{type: union, fields: [{type: span, left: 9}, {type: lsh, rounds: 1, buckets: 4}]}");
}

// Near tokens and the first ones [Xiao et al. 2024]: what lies between leaves the cache, so that it stops growing, and
// every step gives the row of the whole.
// oracle: infer.kv_evict
TEST(UnionField, SinksStayWhileTheRestIsForgotten) {
  const std::string field = "{type: union, fields: [{type: span, left: 49}, {type: global, tokens: 4}]}";
  expect_decodes(field, 390);
  FieldAttention attention(field);
  EXPECT_EQ(attention.mixer->state_bytes({30}, DType::f64), 30 * 2 * 8 * 8);  // all, while there is room
  int64_t most = 0;
  for (int64_t tokens = 1; tokens < 5000; ++tokens)
    most = std::max(most, attention.mixer->state_bytes({tokens}, DType::f64));
  EXPECT_LE(most, (64 + 50 + 63) * 2 * 8 * 8);  // a page of sinks, the window, less than a page
  expect_decodes("{type: global, tokens: 70}", 390);
}

// oracle: infer.kv_evict
TEST(UnionField, ABudgetOfTheTextIsFullAttention) {
  expect_same_field("{type: union, fields: [{type: span, left: 8}, {type: global, tokens: 4}]}", "full", true);
}

TEST(UnionField, RefusesWhatHasNoMeaning) {
  EXPECT_NE(kit::coded_error_of([] {
              FieldAttention("{type: union, fields: [local_prior]}");
            }).find("2 union: field local_prior changes weights"),
            std::string::npos);
  EXPECT_NE(
      kit::coded_error_of([] { FieldAttention("{type: union, fields: {}}"); }).find("2 union: fields must be a list"),
      std::string::npos);
}

}  // namespace
}  // namespace lithe
