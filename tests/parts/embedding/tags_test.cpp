#include <gtest/gtest.h>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Tagged {
  Tagged(const std::string& type, const std::string& options)
      : part(bench.make<Embedding>(type, {.vocab_size = 6, .hidden_size = 3}, options)) {}
  Var operator()(const Tensor& ids, const std::map<std::string, std::vector<int32_t>>& tags = {}) const {
    Pass pass;
    for (const auto& [name, values] : tags) pass.give(name, tensor_of({int64_t(values.size())}, values));
    return part->forward(ids, pass);
  }
  kit::Bench bench;
  std::unique_ptr<Embedding> part;
};

void fill(const Tensor& x, double value) {
  for (int64_t i = 0; i < x.numel(); ++i) set_value(x, i, value);
}
void identity(const Tensor& x) {
  fill(x, 0);
  for (int64_t i = 0; i < x.rows(); ++i) set_value(x, i * x.cols() + i, 1);
}

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

// oracle: syn.input_joint
TEST(InputJoint, HasARowForEachCompositeAndFallsBack) {
  Tagged plain("input_joint", "{}");
  EXPECT_EQ(plain.bench.parameters().count(), 18);
  EXPECT_EQ(kit::bit_difference(plain(kit::ids_of({5, 0})).value(), kit::rows_of(plain.bench["part.weight"], {5, 0})),
            "");
  Tagged joint("input_joint", "{tags: {upos: 3}, composites: [0, 0, 5, 0, 5, 1, 5, 2]}");
  EXPECT_EQ(joint.bench.parameters().count(), 4 * 3);
  const auto rows = [&](const std::vector<int32_t>& ids, const std::vector<int32_t>& tags) {
    return joint(tensor_of({int64_t(ids.size())}, ids), {{"upos", tags}});
  };
  // 5/1, 5/2, 5/3 (unseen: 5/UNK), 4/1 (unseen: UNK).
  EXPECT_EQ(kit::bit_difference(rows({5, 5, 5, 4}, {1, 2, 3, 1}).value(),
                                kit::rows_of(joint.bench["part.weight"], {2, 3, 1, 0})),
            "");
  EXPECT_EQ(joint.part->table(), nullptr);
  {
    Tape tape;
    tape.backward(rows({5}, {1}), kit::normal({1, 3}, DType::f64, 1));
    const Tensor grad = joint.bench.parameters().find("part.weight")->master.grad();
    for (int64_t c = 0; c < 3; ++c) {
      EXPECT_NE(value_at(grad, 6 + c), 0);
      EXPECT_EQ(value_at(grad, 9 + c), 0);
    }
  }
  EXPECT_THROW(Tagged("input_joint", "{tags: {upos: 3}}"), Error);
  EXPECT_THROW(Tagged("input_joint", "{tags: {upos: 3}, composites: [5, 1]}"), Error);
}

}  // namespace
}  // namespace lithe
