#include "tests/parts/embedding/tags_kit.h"

namespace lithe {
namespace {

// oracle: syn.tag_ffn
TEST(TagFfn, WithIdentitiesIsTheSumAndWithoutTagsTheWord) {
  Tagged ffn("tag_ffn", "{tags: {upos: 2, deprel: 3}}"), sum("tag_sum", "{tags: {upos: 2, deprel: 3}}");
  EXPECT_EQ(ffn.bench.parameters().count(), 6 * 3 + 5 * 3 + 3 * 3 * 3 + 3);
  EXPECT_EQ(Tagged("tag_ffn", "{tags: {upos: 2}, tag_size: 5}").bench.parameters().count(),
            6 * 3 + 2 * 5 + (3 + 5) * 3 + 3);
  EXPECT_EQ(Tagged("tag_ffn", "{tags: {upos: 2}, layers: 2, intermediate_size: 7}").bench.parameters().count(),
            6 * 3 + 2 * 3 + 6 * 7 + 7 + 7 * 3 + 3);
  for (const char* name : {"part.weight", "part.tags.upos.weight", "part.tags.deprel.weight"})
    copy_into(ffn.bench[name], sum.bench[name]);
  identity(ffn.bench["part.word.weight"]);
  fill(ffn.bench["part.word.bias"], 0);
  for (const char* name : {"part.tags.upos.map.weight", "part.tags.deprel.map.weight"}) identity(ffn.bench[name]);
  const Tensor ids = kit::ids_of({5, 0, 5, 2});
  const std::map<std::string, std::vector<int32_t>> tags{{"upos", {1, 2, 0, 1}}, {"deprel", {0, 3, 0, 2}}};
  EXPECT_LT(kit::largest_difference(ffn(ids, tags).value(), sum(ids, tags).value()), 1e-15);
  for (const char* name : {"part.tags.upos.map.weight", "part.tags.deprel.map.weight"}) fill(ffn.bench[name], 0);
  EXPECT_LT(kit::largest_difference(ffn(ids, tags).value(), kit::rows_of(ffn.bench["part.weight"], {5, 0, 5, 2})),
            1e-15);
}

}  // namespace
}  // namespace lithe
