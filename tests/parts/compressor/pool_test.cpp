#include <gtest/gtest.h>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

Rows pooled(const std::string& options, const Tensor& x, const Sequences& sequences) {
  kit::Bench bench;
  const auto part = bench.make<Compressor>("pool", {.hidden_size = x.cols(), .causal = false}, options);
  const Compressor::Shorter y = part->forward({Var(x), sequences}, Pass::nowhere());
  EXPECT_EQ(int64_t(y.row_of.size()), x.rows());
  for (int64_t b = 0; b < sequences.count(); ++b)
    for (int64_t row = sequences.offset(b); row < sequences.offset(b + 1); ++row) {
      const int64_t now = y.row_of[size_t(row)];
      EXPECT_TRUE(now >= y.rows.sequences.offset(b) && now < y.rows.sequences.offset(b + 1)) << row;
    }
  return y.rows;
}

TEST(PoolCompressor, TakesTheMeanOrTheLargestOfPairsOfASequence) {
  const Tensor x = kit::tensor_f64({5, 2}, {1, 10, 3, 20, 5, -30, 7, 40, -9, 50});
  const Sequences sequences({0, 3, 5});
  const Rows mean = pooled("{}", x, sequences), most = pooled("{kind: max}", x, sequences);
  EXPECT_EQ(mean.sequences.offsets(), (std::vector<int64_t>{0, 2, 3}));
  EXPECT_EQ(kit::bit_difference(mean.x.value(), kit::tensor_f64({3, 2}, {2, 15, 5, -30, -1, 45})), "");
  EXPECT_EQ(kit::bit_difference(most.x.value(), kit::tensor_f64({3, 2}, {3, 20, 5, -30, 7, 50})), "");
  EXPECT_EQ(kit::bit_difference(pooled("{size: 1}", x, sequences).x.value(), x), "");
  const Rows all = pooled("{size: 9}", x, sequences);
  EXPECT_EQ(all.sequences.offsets(), (std::vector<int64_t>{0, 1, 2}));
  EXPECT_EQ(kit::bit_difference(all.x.value(), kit::tensor_f64({2, 2}, {3, 0, -1, 45})), "");
}

// An encoder whose later layers have half and a quarter of the rows.
constexpr const char* kEncoder =
    "{architecture: encoder, hidden_size: 8, num_hidden_layers: 3, vocab_size: 11, max_position_embeddings: 9, "
    "num_labels: 3, tie_word_embeddings: false, mixer: {type: attention, num_attention_heads: 2}, ffn: {type: gelu, "
    "intermediate_size: 6}, head: classify, layers: {whole: {}, half: {compressor: pool}}, layer_types: [whole, half, "
    "half]}";

TEST(PoolCompressor, LayersAfterItHaveFewerRows) {
  Model model(kit::model_config(kEncoder), {.dtype = DType::f64, .compute = DType::f64, .trainable = true});
  kit::randomise(model.parameters(), 3);
  const kit::Batch batch = kit::random_batch({7, 1, 4}, model.config(), 5);
  const Rows rows = kit::run(model, batch.ids, batch.sequences);
  EXPECT_EQ(rows.sequences.offsets(), (std::vector<int64_t>{0, 2, 3, 4}));
  EXPECT_EQ(model.logits(rows).shape(), (Shape{3, 3}));
  for (const bool recompute : {false, true}) {
    model.set_recompute(recompute);
    std::string where;
    EXPECT_LE(kit::gradient_error(
                  model.parameters(),
                  [&](const std::vector<Var>&) {
                    return std::vector<Var>{kit::loss(model, batch.ids, kit::ids_of({0, 2, 1}), batch.sequences, 0, 1)};
                  },
                  {}, &where),
              1e-6)
        << where;
  }
  // A sequence's rows do not depend on its neighbours.
  const kit::Batch alone = kit::alone(batch, 0);
  EXPECT_EQ(
      kit::bit_difference(kit::run(model, alone.ids, alone.sequences).x.value(), clone(rows.x.value().slice(0, 2))),
      "");
}

TEST(PoolCompressor, RefusesDecodersAndHeadsThatPredictForEveryToken) {
  const auto error = [](const std::string& more) {
    return kit::coded_error_of([&] { Model(kit::model_config(kEncoder, more), {.device = Device::meta}); });
  };
  EXPECT_EQ(
      error("head: tag"),
      "2 model: head tag predicts for every token, and a compressor in model.layers makes fewer rows of them; leave "
      "it out, give a layer above it an expander, or choose a head that predicts for whole sequences, as classify "
      "does");
  EXPECT_NE(error("architecture: decoder, head: lm").find("slot compressor: part 'pool' has no causal form"),
            std::string::npos);
}

// The example of TB 6.2.4: 9 words, phrases of words 1-4, 5-8 and 9.
Rows of_spans(kit::Bench& bench, const std::string& kind, const Tensor& x, const std::vector<int>& spans) {
  const auto part = bench.make<Compressor>("pool", {.hidden_size = x.cols(), .causal = false},
                                           cat("{spans: phrases, kind: ", kind, "}"));
  EXPECT_EQ(part->reads_columns(), std::vector<std::string>{"phrases"});
  kit::randomise(bench.parameters(), 4);
  Pass pass;
  pass.give("phrases", kit::ids_of(spans));
  return part->forward({Var(x), Sequences::single(x.rows())}, pass).rows;
}
const std::vector<int> kExample{0, 0, 0, 0, 1, 1, 1, 1, 2};

// oracle: ms.downsample
// oracle: ms.phrase_embed
TEST(PoolCompressor, SpansOfAColumnBecomeARowEach) {
  const Tensor x = kit::normal({9, 4}, DType::f64, 1);
  for (const char* kind : {"mean", "max", "attention", "rnn_last", "selfattn_cls"}) {
    kit::Bench bench;
    const Rows y = of_spans(bench, kind, x, kExample);
    EXPECT_EQ(y.x.shape(), (Shape{3, 4})) << kind;
    // A phrase's vector is of its words alone; identical phrases have identical vectors.
    const Tensor twice = kit::concatenate({clone(x.slice(0, 4)), clone(x.slice(0, 4)), clone(x.slice(8, 9))});
    kit::Bench again;
    const Tensor same = of_spans(again, kind, twice, kExample).x.value();
    EXPECT_EQ(kit::bit_difference(clone(same.slice(0, 1)), clone(same.slice(1, 2))), "") << kind;
    EXPECT_EQ(kit::bit_difference(clone(same.slice(2, 3)), clone(y.x.value().slice(2, 3))), "") << kind;
    // Does the order of words count?
    kit::Bench other;
    const Tensor turned = kit::rows_of(x, {3, 1, 2, 0, 4, 5, 6, 7, 8});
    const bool ordered = kind == std::string("rnn_last");
    EXPECT_EQ(kit::largest_difference(of_spans(other, kind, turned, kExample).x.value(), y.x.value()) > 1e-6, ordered)
        << kind;
  }
  kit::Bench bench;
  const Tensor mean = of_spans(bench, "mean", x, kExample).x.value();
  for (int64_t c = 0; c < 4; ++c) {
    EXPECT_EQ(value_at(mean, 2 * 4 + c), value_at(x, 8 * 4 + c));  // of one word: the word
    double first = 0, words = 0, phrases = 0;
    for (int64_t j = 0; j < 4; ++j) first += value_at(x, j * 4 + c) / 4;
    for (int64_t j = 0; j < 9; ++j) words += value_at(x, j * 4 + c);
    for (int64_t k = 0; k < 3; ++k) phrases += value_at(mean, k * 4 + c) * (k == 2 ? 1 : 4);
    EXPECT_NEAR(value_at(mean, c), first, 1e-14);
    EXPECT_NEAR(words, phrases, 1e-13);  // lengths count
  }
  EXPECT_EQ(kit::bit_difference(of_spans(bench, "mean", x, {0, 1, 2, 3, 4, 5, -1, -1, 6}).x.value(), x), "");
}

TEST(PoolCompressor, LearnedKindsHaveTheirParametersAndGradients) {
  const std::map<std::string, int64_t> parameters{
      {"attention", 4}, {"rnn_last", 2 * 16 + 4}, {"selfattn_cls", 4 * 16 + 4}};
  for (const auto& [kind, count] : parameters) {
    kit::Bench bench;
    const auto part =
        bench.make<Compressor>("pool", {.hidden_size = 4, .causal = false}, cat("{size: 3, kind: ", kind, "}"));
    kit::randomise(bench.parameters(), 4);
    EXPECT_EQ(bench.parameters().count(), count) << kind;
    EXPECT_LE(kit::gradient_error(
                  bench.parameters(),
                  [&](const std::vector<Var>& in) {
                    return std::vector<Var>{part->forward({in[0], Sequences({0, 5, 7})}, Pass::nowhere()).rows.x};
                  },
                  {kit::normal({7, 4}, DType::f64, 1)}),
              1e-6)
        << kind;
  }
}

TEST(PoolCompressor, SaysWhichColumnIsMissing) {
  const ModelConfig config =
      kit::model_config(kEncoder, "layers: {whole: {}, half: {compressor: {type: pool, spans: phrases}}}");
  Model model(config, {});
  const kit::Batch batch = kit::random_batch({3}, config, 5);
  EXPECT_NE(kit::error_of([&] {
              Pass pass;
              model.run({batch.ids, batch.sequences}, pass);
            }).find("phrases"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
