#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct Lookup {
  explicit Lookup(const std::string& options = "{}")
      : part(bench.make<Embedding>("lookup", {.vocab_size = 6, .hidden_size = 3}, options)) {}
  kit::Bench bench;
  std::unique_ptr<Embedding> part;
};

// oracle: embed.token
TEST(Lookup, GivesTheTablesRows) {
  Lookup lookup;
  const Tensor table = lookup.bench["part.weight"];
  EXPECT_EQ(lookup.bench.parameters().count(), 18);
  EXPECT_EQ(
      kit::bit_difference(lookup.part->forward(kit::ids_of({5, 0, 5, 2})).value(), kit::rows_of(table, {5, 0, 5, 2})),
      "");
  EXPECT_EQ(lookup.part->table()->master.value().shape(), table.shape());
}

TEST(Lookup, ARowsGradientIsTheSumOverItsOccurrences) {
  Lookup lookup;
  const Tensor dy = kit::normal({4, 3}, DType::f64, 2);
  {
    Tape tape;
    tape.backward(lookup.part->forward(kit::ids_of({5, 0, 5, 2})), dy);
  }
  const Tensor got = lookup.part->table()->master.grad();
  for (int64_t c = 0; c < 3; ++c) {
    EXPECT_EQ(value_at(got, 5 * 3 + c), value_at(dy, c) + value_at(dy, 6 + c));
    EXPECT_EQ(value_at(got, c), value_at(dy, 3 + c));
    EXPECT_EQ(value_at(got, 2 * 3 + c), value_at(dy, 9 + c));
    for (int64_t unused : {1, 3, 4}) EXPECT_EQ(value_at(got, unused * 3 + c), 0);
  }
}

TEST(Lookup, PaddingIsZeroAndGetsNoGradient) {
  Lookup lookup("{padding_idx: 2}");
  const Tensor y = lookup.part->forward(kit::ids_of({1, 2})).value();
  EXPECT_EQ(kit::values(y.slice(1, 2)), (std::vector<double>{0, 0, 0}));
  EXPECT_NE(value_at(y, 0), 0);
  {
    Tape tape;
    tape.backward(lookup.part->forward(kit::ids_of({1, 2, 2})), kit::normal({3, 3}, DType::f64, 2));
  }
  const Tensor got = lookup.part->table()->master.grad();
  EXPECT_EQ(kit::values(got.slice(2, 3)), (std::vector<double>{0, 0, 0}));
  EXPECT_NE(value_at(got, 3), 0);
}

TEST(Lookup, CanScaleByTheRootOfTheWidth) {
  Lookup plain, scaled("{scale: sqrt_hidden}");
  kit::assign(scaled.bench["part.weight"], plain.bench["part.weight"]);
  const Tensor a = plain.part->forward(kit::ids_of({1, 4})).value(),
               b = scaled.part->forward(kit::ids_of({1, 4})).value();
  for (int64_t i = 0; i < 6; ++i)
    EXPECT_NEAR(value_at(b, i), std::sqrt(3.0) * value_at(a, i), 2 * 0x1p-53 * std::abs(value_at(b, i)));
}

TEST(Lookup, SegmentsAddTheirRowsWhereThereIsMoreThanOne) {
  const Tensor ids = kit::ids_of({1, 4, 1}), segments = kit::ids_of({0, 0, 1});
  for (const int64_t types : {1, 2}) {
    kit::Bench bench;
    const auto part =
        bench.make<Embedding>("lookup", {.vocab_size = 5, .hidden_size = 3}, cat("{type_vocab_size: ", types, "}"));
    Pass pass;
    const Tensor without = part->forward(ids, pass).value();
    pass.give("token_type_ids", segments);
    const Tensor with = part->forward(ids, pass).value();
    EXPECT_EQ(kit::largest_difference(with.slice(0, 2), without.slice(0, 2)), 0);
    EXPECT_EQ(kit::largest_difference(with.slice(2, 3), without.slice(2, 3)) > 0, types == 2);
  }
}

TEST(Lookup, IdsOutsideTheTableAreRefused) {
  Lookup lookup;
  for (int id : {-1, 6}) {
    try {
      lookup.part->forward(kit::ids_of({0, id}));
      FAIL() << "took id " << id;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()), cat("embed: id ", id, " at row 1 is outside the table of 6 rows"));
    }
  }
  EXPECT_THROW(Lookup("{padding_idx: 6}"), Error);
}

TEST(Lookup, CodesAreRefused) {
  kit::Bench bench;
  try {
    bench.make<Embedding>("lookup", {.vocab_size = 6, .hidden_size = 3, .token_width = 5});
    FAIL() << "took codes";
  } catch (const Error& error) {
    EXPECT_EQ(
        std::string(error.what()),
        "embedding: lookup reads ids, one int a token, the tokenizer's tokens are 5 ints; set data.tokenizer to one "
        "with a vocabulary ({type: bpe}), or model.embedding to a hash embedding");
  }
}

ModelConfig lookup_config(bool tied) {
  return kit::model_config(
      cat("{vocab_size: 11, hidden_size: 8, num_hidden_layers: 1, max_position_embeddings: 6, mixer: {type: attention, "
          "num_attention_heads: 2}, tie_word_embeddings: ",
          tied ? "true" : "false", "}"));
}

TEST(Lookup, TyingRemovesExactlyOneTable) {
  Model tied(lookup_config(true), {}), untied(lookup_config(false), {});
  EXPECT_EQ(untied.parameters().count() - tied.parameters().count(), 11 * 8);
  EXPECT_EQ(tied.parameters().find("head.weight"), nullptr);
  EXPECT_EQ(cat(untied.parameters().find("head.weight")->master.shape()), "[8,11]");
}

// Names of vocabulary entries carry no meaning: permuting ids together with the table's rows permutes the logits.
TEST(Lookup, OrderOfTheVocabularyDoesNotMatter) {
  const ModelOptions exact{.dtype = DType::f64, .compute = DType::f64};
  Model model(lookup_config(true), exact), other(lookup_config(true), exact);
  kit::randomise(model.parameters(), 3);
  kit::copy_values(other.parameters(), model.parameters());
  const std::vector<int64_t> order{4, 7, 0, 10, 2, 9,
                                   1, 3, 8, 5,  6};  // entry i of the other is entry order[i] of the first
  kit::assign(other.parameters().find("embedding.weight")->master.value(),
              kit::rows_of(model.parameters().find("embedding.weight")->master.value(), order));
  const std::vector<int> ids{3, 3, 0, 10, 6};
  std::vector<int> renamed;
  for (int id : ids) renamed.push_back(int(order[size_t(id)]));
  const Sequences sequences({0, 2, 5});
  const Tensor want = kit::logits(model, kit::ids_of(renamed), sequences).value();
  EXPECT_EQ(kit::bit_difference(kit::logits(other, kit::ids_of(ids), sequences).value(), kit::columns_of(want, order)),
            "");
}

}  // namespace
}  // namespace lithe
