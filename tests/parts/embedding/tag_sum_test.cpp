#include "tests/parts/embedding/tags_kit.h"

namespace lithe {
namespace {

// oracle: syn.tag_sum
TEST(TagSum, AddsTheRowsOfTags) {
  Tagged both("tag_sum", "{tags: {upos: 2, deprel: 3}}"), turned("tag_sum", "{tags: {deprel: 3, upos: 2}}");
  EXPECT_EQ(both.bench.parameters().count(), 6 * 3 + 2 * 3 + 3 * 3);
  for (const char* name : {"part.weight", "part.tags.upos.weight", "part.tags.deprel.weight"})
    copy_into(both.bench[name], turned.bench[name]);
  const Tensor ids = kit::ids_of({5, 0, 5, 2});
  const std::map<std::string, std::vector<int32_t>> tags{{"upos", {1, 2, 0, 1}}, {"deprel", {0, 3, 0, 2}}};
  EXPECT_LT(kit::largest_difference(both(ids, tags).value(), turned(ids, tags).value()), 1e-15);
  const Tensor got = both(ids, tags).value(), words = both.bench["part.weight"],
               upos = both.bench["part.tags.upos.weight"], deprel = both.bench["part.tags.deprel.weight"];
  for (int64_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(value_at(got, 3 + c), value_at(words, c) + value_at(upos, 3 + c) + value_at(deprel, 6 + c), 1e-15);
    EXPECT_EQ(value_at(got, 6 + c), value_at(words, 15 + c));  // no tags: the word alone
  }
  {  // at one occurrence the gradients of the word's and of the tags' rows are the same
    const Tensor dy = kit::normal({4, 3}, DType::f64, 2);
    Tape tape;
    tape.backward(both(ids, tags), dy);
    for (int64_t c = 0; c < 3; ++c)
      for (const auto& [name, at] : {std::pair<std::string, int64_t>{"part.weight", 0},
                                     {"part.tags.upos.weight", 3},
                                     {"part.tags.deprel.weight", 6}})
        EXPECT_EQ(value_at(both.bench.parameters().find(name)->master.grad(), at + c), value_at(dy, 3 + c)) << name;
  }
  fill(upos, 0), fill(deprel, 0);
  EXPECT_EQ(kit::bit_difference(both(ids, tags).value(), kit::rows_of(words, {5, 0, 5, 2})), "");
  EXPECT_THROW(both(ids, {{"upos", {3, 0, 0, 0}}, {"deprel", {0, 0, 0, 0}}}), Error);
  EXPECT_THROW(both(ids), Error);
  EXPECT_THROW(Tagged("tag_sum", "{tags: [upos]}"), Error);  // whose values nobody has said
}

}  // namespace
}  // namespace lithe
