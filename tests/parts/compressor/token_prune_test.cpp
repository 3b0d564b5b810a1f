#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <set>

#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

Compressor::Shorter pruned(const std::string& options, const Tensor& x, const Sequences& sequences,
                           const std::vector<double>& received) {
  kit::Bench bench;
  const auto part = bench.make<Compressor>("token_prune", {.hidden_size = x.cols(), .causal = false}, options);
  const Pass pass;
  pass.within(0).put(Tap::Kind::received, Var(kit::tensor_f64({x.rows(), 1}, received)));
  return part->forward({Var(x), sequences}, pass.within(1));
}

std::set<int64_t> kept_of(const Compressor::Shorter& y) {
  std::set<int64_t> out;
  for (size_t row = 0; row < y.row_of.size(); ++row)
    if (y.row_of[row] >= 0) out.insert(int64_t(row));
  return out;
}

// oracle: seqc.token_prune
TEST(TokenPruneCompressor, KeepsTheMostImportantAndTheFirst) {
  const Tensor x = kit::normal({8, 3}, DType::f64, 1);
  const Sequences sequences({0, 5, 8});
  const std::vector<double> received{0.05, 0.4, 0.15, 0.1, 0.3, 0.2, 0.5, 0.3};
  EXPECT_EQ(kept_of(pruned("{share: 0.4}", x, sequences, received)), (std::set<int64_t>{0, 1, 5, 6}));
  EXPECT_EQ(kept_of(pruned("{share: 0.4, keep_first: false}", x, sequences, received)),
            (std::set<int64_t>{1, 4, 6, 7}));
  EXPECT_EQ(kept_of(pruned("{by: threshold, threshold: 0.3}", x, sequences, received)),
            (std::set<int64_t>{0, 1, 4, 5, 6, 7}));
  EXPECT_EQ(kept_of(pruned("{by: threshold, threshold: 9}", x, sequences, received)), (std::set<int64_t>{0, 5}));
  EXPECT_EQ(kept_of(pruned("{by: threshold, threshold: 9, keep_first: false}", x, sequences, received)),
            (std::set<int64_t>{1, 6}));
  std::set<int64_t> before;
  for (const double share : {0.1, 0.3, 0.5, 0.7, 0.9, 1.}) {
    const std::set<int64_t> kept = kept_of(pruned(cat("{share: ", share, "}"), x, sequences, received));
    EXPECT_TRUE(std::includes(kept.begin(), kept.end(), before.begin(), before.end())) << share;
    before = kept;
  }
  // Those that are gone have no influence, and the rest stand where they stood.
  const Tensor other = clone(x);
  for (const int64_t row : {2, 3, 4, 7}) set_value(other, row * 3, 9);
  const Compressor::Shorter a = pruned("{share: 0.4}", x, sequences, received),
                            b = pruned("{share: 0.4}", other, sequences, received);
  EXPECT_EQ(kit::bit_difference(a.rows.x.value(), b.rows.x.value()), "");
  EXPECT_EQ(a.rows.sequences.positions().data<int32_t>()[3], 1);
}

std::string encoder(const std::string& prune) {
  return "{architecture: encoder, hidden_size: 8, num_hidden_layers: 3, vocab_size: 11, max_position_embeddings: 9, "
         "num_labels: 3, tie_word_embeddings: false, mixer: {type: attention, num_attention_heads: 2}, ffn: {type: "
         "gelu, "
         "intermediate_size: 6}, head: classify, layers: {whole: {}, fewer: {compressor: " +
         prune + "}}, layer_types: [whole, fewer, fewer]}";
}

TEST(TokenPruneCompressor, ReadsTheAttentionOfTheLayerBelow) {
  const std::string half = "{type: token_prune, share: 0.5}";
  Model model(kit::model_config(encoder(half)), kit::kTrainable);
  kit::randomise(model.parameters(), 3);
  const kit::Batch batch = kit::random_batch({8, 1, 5}, model.config(), 5);
  Pass pass;
  pass.want(Tap::Kind::received);
  const NoGrad no_grad;
  const Rows rows = model.run(kit::input_of(batch), pass);
  EXPECT_EQ(rows.sequences.offsets(), (std::vector<int64_t>{0, 2, 3, 5}));  // 8 -> 4 -> 2, 5 -> 3 -> 2
  const Tensor received = pass.get({Tap::Kind::received, 0}).value();
  for (int64_t b = 0; b < 3; ++b) {
    double sum = 0;
    for (int64_t row = batch.sequences.offset(b); row < batch.sequences.offset(b + 1); ++row)
      sum += value_at(received, row);
    EXPECT_NEAR(sum, 1, 1e-12);
  }
  const std::vector<MixerMaps> maps = kit::maps(model, clone(batch.ids.slice(0, 8)));
  for (int64_t key = 0; key < 8; ++key) {
    double sum = 0;
    for (int64_t row = 0; row < 16; ++row) sum += value_at(maps[0].weights, row * 8 + key);
    EXPECT_NEAR(value_at(received, key), sum / 16, 1e-6) << key;
  }
  const kit::Batch alone = kit::alone(batch, 0);
  EXPECT_EQ(kit::bit_difference(kit::forward(model, alone).value(), clone(rows.x.value().slice(0, 2))), "");
}

TEST(TokenPruneCompressor, AShareOfOneIsThePlainModel) {
  Model model(kit::model_config(encoder("{type: token_prune, share: 1}")), kit::kExact),
      plain(kit::model_config(encoder("pool"), "layers: {whole: {}}, layer_types: [whole, whole, whole]"), kit::kExact);
  kit::randomise(model.parameters(), 3);
  kit::copy_values(plain.parameters(), model.parameters());
  const kit::Batch batch = kit::random_batch({8, 3}, model.config(), 5);
  EXPECT_EQ(kit::bit_difference(kit::forward(model, batch).value(), kit::forward(plain, batch).value()), "");
}

// With a small temperature the mask is 0 or 1, and a token of mask 0 is not there for the others. (As a query it still
// counts for what a further compressor finds important.)
TEST(TokenPruneCompressor, ASoftMaskBecomesTheHardChoice) {
  for (const std::string by : {"by: share, share: 0.5", "by: threshold, threshold: 0.13"}) {
    Model model(kit::model_config(encoder("{type: token_prune, training: soft, temperature: 1e-7, " + by + "}"),
                                  "layer_types: [whole, fewer, whole]"),
                kit::kTrainable);
    kit::randomise(model.parameters(), 3);
    for (Parameter& p : model.parameters().all())
      if (p.name.ends_with("threshold")) set_value(p.master.value(), 0, 0.13);
    const kit::Batch batch = kit::random_batch({8, 1, 5}, model.config(), 5);
    const Rows hard = kit::run(model, batch.ids, batch.sequences);
    EXPECT_LT(hard.x.rows(), 14) << by;
    for (const bool recompute : {false, true}) {
      model.set_recompute(recompute);
      Tape tape;
      const Rows soft = kit::run(model, batch.ids, batch.sequences);
      EXPECT_EQ(soft.sequences.offsets(), batch.sequences.offsets());
      for (int64_t b = 0; b < 3; ++b)  // [CLS] sees the same tokens
        EXPECT_LE(
            kit::largest_difference(soft.x.value().slice(batch.sequences.offset(b), batch.sequences.offset(b) + 1),
                                    hard.x.value().slice(hard.sequences.offset(b), hard.sequences.offset(b) + 1)),
            1e-9)
            << by << b;
    }
  }
}

TEST(TokenPruneCompressor, GradientsReachThresholdsAndAttention) {
  for (const std::string weaken : {"keys", "rows"}) {
    Model model(kit::model_config(encoder("{type: token_prune, by: threshold, training: soft, temperature: 0.2, "
                                          "kept_loss_coef: 0.3, weaken: " +
                                          weaken + "}")),
                kit::kTrainable);
    kit::randomise(model.parameters(), 3);
    const kit::Batch batch = kit::random_batch({6, 1, 4}, model.config(), 5);
    for (const bool recompute : {false, true}) {
      model.set_recompute(recompute);
      std::string where;
      EXPECT_LE(
          kit::gradient_error(
              model.parameters(),
              [&](const std::vector<Var>&) {
                return std::vector<Var>{kit::loss(model, batch.ids, kit::ids_of({0, 2, 1}), batch.sequences, 0, 1)};
              },
              {}, &where),
          1e-6)
          << weaken << recompute << where;
    }
  }
}

// Every token is given back the last row that it had, also by one expander for several compressors.
TEST(TokenPruneCompressor, ATaggerGetsTheRowsOfTokensThatLeft) {
  const std::string tagger =
      "{architecture: encoder, hidden_size: 8, num_hidden_layers: 4, vocab_size: 11, max_position_embeddings: 9, "
      "num_labels: 3, tie_word_embeddings: false, mixer: {type: attention, num_attention_heads: 2}, ffn: {type: gelu, "
      "intermediate_size: 6}, head: tag, layers: {whole: {}, fewer: {compressor: {type: token_prune, share: 0.5}}, "
      "all: "
      "{expander: {type: repeat, skip: false, undoes: 0}}}, layer_types: [whole, fewer, fewer, all]}";
  Model model(kit::model_config(tagger), kit::kTrainable);
  kit::randomise(model.parameters(), 3);
  const kit::Batch batch = kit::random_batch({7, 1, 4}, model.config(), 5);
  EXPECT_EQ(model.logits(kit::run(model, batch.ids, batch.sequences)).shape(), (Shape{12, 3}));
  std::string where;
  for (const bool recompute : {false, true}) {
    model.set_recompute(recompute);
    EXPECT_LE(kit::gradient_error(
                  model.parameters(),
                  [&](const std::vector<Var>&) {
                    return std::vector<Var>{kit::loss(model, batch, kit::labels_for(model, batch), 0, 1)};
                  },
                  {}, &where),
              1e-6)
        << recompute << where;
  }
}

TEST(TokenPruneCompressor, RefusesWhatCannotWork) {
  const auto error = [](const std::string& prune, const std::string& more) {
    return kit::coded_error_of([&] { Model(kit::model_config(encoder(prune), more), kit::kMeta); });
  };
  EXPECT_NE(
      error("token_prune", "layer_types: [fewer, whole, whole]").find("2 model: layers.0: the compressor looks at"),
      std::string::npos);
  for (const char* mixer : {"fnet", "{type: attention, num_attention_heads: 2, field: {type: local_prior, use: mix}}",
                            "{type: attention, num_attention_heads: 2, field: topk_importance}"})
    EXPECT_NE(
        error("{type: token_prune, training: soft}",
              cat("layers: {whole: {}, fewer: {compressor: {type: token_prune, training: soft}, mixer: ", mixer, "}}"))
            .find("takes every row as wholly there, and the compressor of layers"),
        std::string::npos)
        << mixer;
  EXPECT_NE(error("{type: token_prune, training: soft}",
                  "layers: {whole: {}, fewer: {compressor: {type: token_prune, training: soft}}, half: {compressor: "
                  "pool}}, layer_types: [whole, fewer, half]")
                .find("makes rows of several"),
            std::string::npos);
  Model fnet(
      kit::model_config(encoder("token_prune"), "layers: {whole: {mixer: fnet}, fewer: {compressor: token_prune}}"),
      kit::kExact);
  EXPECT_NE(kit::error_of([&] {
              kit::forward(fnet, kit::ids_of({1, 2, 3}), Sequences::single(3));
            }).find("token_prune: looks at the attention of the layer below layer 2, which has none"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
