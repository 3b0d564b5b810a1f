#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

Tensor repeated(const std::string& options, const Tensor& x, const Tensor& before, const std::vector<int64_t>& row_of) {
  kit::Bench bench;
  const auto part = bench.make<Expander>("repeat", {.hidden_size = x.cols()}, options);
  const Shortening from{{Var(before), Sequences({0, 3, 5})}, row_of};
  return part->forward({Var(x), Sequences({0, 2, 3})}, from, Pass::nowhere()).value();
}

TEST(RepeatExpander, EachRowGetsTheOneThatStandsForIt) {
  const Tensor x = kit::tensor_f64({3, 2}, {1, 2, 3, 4, 5, 6}),
               before = kit::tensor_f64({5, 2}, {10, 20, 30, 40, 50, 60, 70, 80, 90, 100});
  EXPECT_EQ(kit::bit_difference(repeated("{skip: false}", x, before, {0, 0, 1, 2, -1}),
                                kit::tensor_f64({5, 2}, {1, 2, 1, 2, 3, 4, 5, 6, 90, 100})),
            "");
  EXPECT_EQ(kit::bit_difference(repeated("{}", x, before, {0, 0, 1, 2, -1}),
                                kit::tensor_f64({5, 2}, {11, 22, 31, 42, 53, 64, 75, 86, 90, 100})),
            "");
  EXPECT_EQ(kit::error_of([&] { repeated("{}", x, before, {}); }),
            "expander: repeat needs to know which of 3 rows stands for each of the 5 before; the compressor says so of "
            "0");
}

// An encoder that shortens twice and gives all rows back.
ModelConfig there_and_back(const std::string& more = "") {
  return kit::model_config(
      "{architecture: encoder, hidden_size: 8, num_hidden_layers: 4, vocab_size: 11, max_position_embeddings: 9, "
      "num_labels: 3, tie_word_embeddings: false, mixer: {type: attention, num_attention_heads: 2}, ffn: {type: gelu, "
      "intermediate_size: 6}, head: tag, layers: {half: {compressor: pool}, again: {expander: repeat}}, "
      "layer_types: [half, half, again, again]}",
      more);
}

TEST(RepeatExpander, AHeadForEveryTokenStandsAboveACompressor) {
  Model model(there_and_back(), kit::kTrainable);
  kit::randomise(model.parameters(), 3);
  const kit::Batch batch = kit::random_batch({7, 1, 4}, model.config(), 5);
  const Rows rows = kit::run(model, batch.ids, batch.sequences);
  EXPECT_EQ(rows.sequences.offsets(), batch.sequences.offsets());
  EXPECT_EQ(model.logits(rows).shape(), (Shape{12, 3}));
  for (const bool recompute : {false, true}) {
    model.set_recompute(recompute);
    std::string where;
    EXPECT_LE(kit::gradient_error(
                  model.parameters(),
                  [&](const std::vector<Var>&) {
                    return std::vector<Var>{kit::loss(model, batch, kit::labels_for(model, batch), 0, 1)};
                  },
                  {}, &where),
              1e-6)
        << recompute << where;
  }
  const kit::Batch alone = kit::alone(batch, 2);
  EXPECT_EQ(kit::bit_difference(kit::forward(model, alone).value(), clone(rows.x.value().slice(8, 12))), "");
}

TEST(RepeatExpander, OneWithoutACompressorBelowIsRefused) {
  EXPECT_EQ(kit::error_of([] { Model(there_and_back("layer_types: [half, again, again, half]"), kit::kMeta); }),
            "model: layers.2: the expander gives rows back that a compressor took, and no layer below has one left; "
            "give one of them a compressor, or leave the expander out");
  EXPECT_EQ(
      kit::error_of([] { Model(there_and_back("layer_types: [half, half, again, half]"), kit::kMeta); }).substr(0, 54),
      "model: head tag predicts for every token, and a compre");
  EXPECT_NE(kit::error_of([] {
              there_and_back("layers: {half: {compressor: pool, expander: repeat}, again: {}}").layer(0);
            }).find("has a compressor and an expander"),
            std::string::npos);
}

TEST(RepeatExpander, LearnsInBf16) {
  for (const char* expander : {"{type: repeat}", "{type: repeat, skip: false}", "{type: repeat, between: linear}"}) {
    const auto gradient = [&](DType compute) {
      Model model(there_and_back(cat("layers: {half: {compressor: pool}, again: {expander: ", expander, "}}")),
                  {.compute = compute, .trainable = true});
      kit::randomise(model.parameters(), 3);
      const kit::Batch batch = kit::random_batch({7, 1, 4}, model.config(), 5);
      Tape tape;
      tape.backward(kit::loss(model, batch, kit::labels_for(model, batch), 0, 1));
      return model.parameters().find("embedding.weight")->master.grad();
    };
    const Tensor wide = gradient(DType::f32), narrow = gradient(DType::bf16);
    double largest = 0;
    for (int64_t i = 0; i < wide.numel(); ++i) largest = std::max(largest, std::abs(value_at(wide, i)));
    EXPECT_LT(kit::largest_difference(narrow, wide), 0.1 * largest) << expander;
  }
}

// A fused stack reads rows of all layers below side by side.
TEST(RepeatExpander, AStackThatNeedsRowsAlikeIsRefused) {
  EXPECT_EQ(kit::coded_error_of([] { Model(there_and_back("stack: fusion"), kit::kMeta); }),
            "2 model: layers.0: stack fusion keeps the rows of all layers alike; leave the compressor out, or set "
            "model.stack: plain");
}

// Down and up again, with phrases of words 1-4, 5-8 and 9 [TB 6.2.4].
// oracle: ms.upsample
TEST(RepeatExpander, UpAfterDownIsAProjectionAndDownAfterUpIsNothing) {
  kit::Bench bench;
  const auto down = bench.make<Compressor>("pool", {.hidden_size = 4, .causal = false}, "{spans: phrases}", "down");
  const auto up = bench.make<Expander>("repeat", {.hidden_size = 4}, "{skip: false}", "up");
  Pass pass;
  pass.give("phrases", kit::ids_of({0, 0, 0, 0, 1, 1, 1, 1, 2}));
  const auto there = [&](const Var& x) { return down->forward({x, Sequences::single(9)}, pass); };
  const auto back = [&](const Var& x, const Compressor::Shorter& of) {
    return up->forward({x, of.rows.sequences}, {{Var(zeros({9, 4}, DType::f64)), Sequences::single(9)}, of.row_of},
                       pass);
  };
  const Var x(kit::normal({9, 4}, DType::f64, 1));
  const Compressor::Shorter phrases = there(x);
  const Var words = back(phrases.rows.x, phrases);
  EXPECT_EQ(words.shape(), (Shape{9, 4}));
  EXPECT_EQ(kit::close(there(words).rows.x.value(), phrases.rows.x.value(), 8), "");
  EXPECT_EQ(kit::close(back(there(words).rows.x, phrases).value(), words.value(), 8), "");
  EXPECT_GT(kit::largest_difference(words.value(), x.value()), 0.1);
  // The gradient of a phrase is the sum over its words.
  EXPECT_LE(kit::gradient_error(bench.parameters(),
                                [&](const std::vector<Var>& in) { return std::vector<Var>{back(in[0], phrases)}; },
                                {kit::normal({3, 4}, DType::f64, 2)}),
            1e-8);
}

// oracle: ms.upsample
TEST(RepeatExpander, LinearStandsBetweenTheCentresOfTheNearestGroups) {
  kit::Bench bench;
  const auto up = bench.make<Expander>("repeat", {.hidden_size = 1}, "{skip: false, between: linear}");
  const Shortening from{{Var(zeros({6, 1}, DType::f64)), Sequences({0, 5, 6})}, {0, 0, 0, 1, 1, 2}};
  const Tensor y =
      up->forward({Var(kit::tensor_f64({3, 1}, {1, 6, 9})), Sequences({0, 2, 3})}, from, Pass::nowhere()).value();
  // Centres at words 1 and 3.5; the other text has one row, which stands for all.
  const double expected[] = {1, 1, 1 + 5 * 1 / 2.5, 1 + 5 * 2 / 2.5, 6, 9};
  for (int64_t i = 0; i < 6; ++i) EXPECT_NEAR(value_at(y, i), expected[i], 1e-14) << i;
  const auto added = bench.make<Expander>("repeat", {.hidden_size = 1}, "{between: linear}", "other");
  EXPECT_EQ(kit::bit_difference(
                added->forward({Var(kit::tensor_f64({3, 1}, {1, 6, 9})), Sequences({0, 2, 3})}, from, Pass::nowhere())
                    .value(),
                y),
            "");
}

}  // namespace
}  // namespace lithe
