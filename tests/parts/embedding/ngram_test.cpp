#include <gtest/gtest.h>

#include "lithe/ops/ngram.h"
#include "tests/support/model_kit.h"
#include "tests/support/text.h"

namespace lithe {
namespace {

const char* const kAll = "{max_order: 3, num_buckets: 7, type_vocab_size: 2, exact_match: true}";

// Two pairs of texts, packed.
Pass pairs() {
  Pass pass;
  pass.give("positions", kit::ids_of({0, 1, 2, 3, 4, 0, 1, 2}));
  pass.give("token_type_ids", kit::ids_of({0, 0, 0, 1, 1, 0, 1, 1}));
  return pass;
}
const std::vector<int> kIds{5, 0, 3, 0, 3, 4, 4, 4};

TEST(NgramEmbedding, IsTheSumOfTheRowsOfItsNgrams) {
  kit::Bench bench;
  const auto part = bench.make<Embedding>("ngram", {.vocab_size = 6, .hidden_size = 3}, kAll);
  kit::randomise(bench.parameters(), 1);
  EXPECT_EQ(bench.parameters().count(), 3 * (6 + 7 + 2 + 3 * 2));
  const Pass pass = pairs();
  const NgramTokens tokens{kit::ids_of(kIds), *pass.given("positions"), *pass.given("token_type_ids")};
  const Tensor got = part->forward(tokens.ids, pass).value(), want = empty({8, 3}, DType::f64),
               second = ngram_ids(tokens, 2, 7), third = ngram_ids(tokens, 3, 7);
  // Rows of exact matches are by order, then segment: "0", "3" and "0 3" of the first pair, "4" of the second.
  const std::vector<std::vector<int64_t>> matches{{}, {0}, {0, 2}, {1}, {1, 3}, {0}, {1}, {1}};
  for (int64_t n = 0; n < 8; ++n)
    for (int64_t c = 0; c < 3; ++c) {
      const auto row = [&](const char* name, int64_t r) {
        return r < 0 ? 0.0 : value_at(bench[cat("part.", name, "weight")], r * 3 + c);
      };
      double sum = row("", kIds[size_t(n)]) + row("ngram.", second.data<int32_t>()[n]) +
                   row("ngram.", third.data<int32_t>()[n]) + row("token_type.", tokens.segments.data<int32_t>()[n]);
      for (const int64_t m : matches[size_t(n)]) sum += row("exact_match.", m);
      set_value(want, n * 3 + c, sum);
    }
  EXPECT_EQ(kit::close(got, want, 8), "");
}

TEST(NgramEmbedding, GradientsAgreeWithDifferences) {
  kit::Bench bench;
  const auto part = bench.make<Embedding>("ngram", {.vocab_size = 6, .hidden_size = 3}, kAll);
  kit::randomise(bench.parameters(), 1);
  std::string where;
  EXPECT_LE(kit::gradient_error(
                bench.parameters(),
                [&](const std::vector<Var>&) { return std::vector<Var>{part->forward(kit::ids_of(kIds), pairs())}; },
                {}, &where),
            1e-7)
      << where;
}

ModelConfig ngram_config(const std::string& more = "") {
  return kit::model_config(
      "{architecture: encoder, vocab_size: 11, hidden_size: 8, num_hidden_layers: 0, max_position_embeddings: 12, "
      "position: none, norm: none, tie_word_embeddings: false, num_labels: 3, embedding: {type: ngram, max_order: 2, "
      "num_buckets: 5}, head: {type: classify, pooling: mean, dense: false}, mixer: {type: attention, "
      "num_attention_heads: 2}}",
      more);
}
Tensor logits(const Model& model, const std::vector<int>& ids, const Sequences& sequences) {
  return kit::logits(model, kit::ids_of(ids), sequences).value();
}

// Without layers: the mean over the tokens of the weights of their words and pairs, as multinomial logistic regression.
TEST(NgramEmbedding, AloneItIsLinearInTheNgrams) {
  Model model(ngram_config(), kit::kExact);
  kit::randomise(model.parameters(), 2);
  const std::vector<int> ids{1, 4, 1, 7, 7};
  const auto value = [&](const char* name) { return model.parameters().find(name)->master.value(); };
  const Tensor out = value("head.out.weight"), words = kit::product(value("embedding.weight"), out),
               grams = kit::product(value("embedding.ngram.weight"), out),
               pairs = ngram_ids({kit::ids_of(ids), kit::ids_of({0, 1, 2, 0, 1})}, 2, 5);
  const Tensor want = empty({2, 3}, DType::f64);
  for (int64_t b = 0; b < 2; ++b)
    for (int64_t c = 0; c < 3; ++c) {
      double sum = 0;
      for (int64_t n = b == 0 ? 0 : 3; n < (b == 0 ? 3 : 5); ++n) {
        sum += value_at(words, ids[size_t(n)] * 3 + c);
        if (const int32_t pair = pairs.data<int32_t>()[n]; pair >= 0) sum += value_at(grams, pair * 3 + c);
      }
      set_value(want, b * 3 + c, sum / (b == 0 ? 3 : 2) + value_at(value("head.out.bias"), c));
    }
  EXPECT_EQ(kit::close(logits(model, ids, Sequences({0, 3, 5})), want, 64), "");
}

TEST(NgramEmbedding, ABatchIsItsSequences) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const char* more : {"", "num_hidden_layers: 2"}) {
      Model model(ngram_config(more), {.dtype = DType::f32, .compute = dtype});
      kit::randomise(model.parameters(), 2);
      const Tensor got = logits(model, {1, 4, 1, 7, 7, 1, 4, 1}, Sequences({0, 3, 5, 8}));
      const auto row = [&](int64_t b) { return clone(got.slice(b, b + 1)); };
      EXPECT_EQ(kit::bit_difference(row(0), row(2)), "") << dtype << more;
      EXPECT_EQ(kit::bit_difference(logits(model, {1, 4, 1}, Sequences::single(3)), row(0)), "") << dtype << more;
      EXPECT_EQ(kit::bit_difference(logits(model, {7, 7}, Sequences::single(2)), row(1)), "") << dtype << more;
      EXPECT_NE(kit::bit_difference(logits(model, {1, 1, 4}, Sequences::single(3)), row(0)), "") << dtype << more;
    }
}

TEST(NgramEmbedding, TheMetaRunCostsWhatTheRunCosts) {
  const auto peak = [](Device device) {
    Ledger& book = ledger(device);
    Model model(ngram_config("embedding: {type: ngram, max_order: 3, num_buckets: 50, type_vocab_size: 2, "
                             "exact_match: true}"),
                {.device = device, .trainable = true});
    const int64_t before = book.current(MemoryClass::activations);
    book.reset_peak();
    Pass pass;
    pass.give("token_type_ids", zeros({8}, DType::i32, device));
    const Sequences sequences({0, 3, 8}, {}, device);
    Tape tape;
    const Rows rows = model.run({kit::random_ids(8, 11, 1, device), sequences}, pass);
    tape.backward(model.logits(rows), zeros({2, 3}, DType::f32, device));
    return book.peak(MemoryClass::activations) - before;
  };
  EXPECT_EQ(peak(Device::cpu), peak(Device::meta));
}

TEST(NgramEmbedding, SaysWhatItCannotDo) {
  const auto error = [](const std::function<void()>& run) -> std::string {
    try {
      run();
    } catch (const Error& e) {
      return cat(int(e.code()), " ", e.what());
    }
    return "no error";
  };
  const auto part = [&](const std::string& options, int64_t width = 1) {
    return error([&] {
      kit::Bench().make<Embedding>("ngram", {.vocab_size = 6, .hidden_size = 3, .token_width = width}, options);
    });
  };
  EXPECT_PRED2(kit::contains, part("{exact_match: true}"), "2 embedding: ngram: exact_match compares the segments");
  EXPECT_PRED2(kit::contains, part("{max_ordr: 3}"), "did you mean 'max_order'?");
  EXPECT_PRED2(kit::contains, part("{max_order: 9}"), "max_order");
  EXPECT_PRED2(kit::contains, part("{}", 5), "2 embedding: ngram reads ids");
  const std::string decoder = error([] { Model(ngram_config("architecture: decoder"), kit::kMeta); });
  EXPECT_PRED2(kit::contains, decoder, "2 model: embedding ngram reads the tokens around each one");
}

}  // namespace
}  // namespace lithe
