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

}  // namespace
}  // namespace lithe
