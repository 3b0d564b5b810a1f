// Layers that differ: model.layers, sub-layers in their own order, and what passes leave beside their rows.
#include <gtest/gtest.h>

#include "lithe/ops/basic.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

ModelConfig layers_config(const std::string& more = "") {
  return kit::model_config(
      "{hidden_size: 8, num_hidden_layers: 2, vocab_size: 11, max_position_embeddings: 9, mixer: {type: attention, "
      "num_attention_heads: 2}, ffn: {type: relu, intermediate_size: 6}}",
      more);
}

std::string error_of(const std::string& more) {
  return kit::coded_error_of([&] { Model(layers_config(more), {.device = Device::meta}); });
}

TEST(Layers, HaveTheModelsPartsWhereTheyNameNone) {
  const ModelConfig c = layers_config(
      "layers: {narrow: {mixer: {num_attention_heads: 1}, norm: layer}, plain: {}}, layer_types: [plain, narrow]");
  EXPECT_EQ(c.layer(0).norm.type, "rms");
  EXPECT_EQ(c.layer(1).norm.type, "layer");
  EXPECT_EQ(c.layer(0).mixer()->options.find("num_attention_heads")->text(), "2");
  EXPECT_EQ(c.layer(1).mixer()->options.find("num_attention_heads")->text(), "1");
  const Model model(c, kit::kTrainable);
  EXPECT_NE(const_cast<Model&>(model).parameters().find("layers.1.mixer_norm.bias"), nullptr);
  EXPECT_EQ(const_cast<Model&>(model).parameters().find("layers.0.mixer_norm.bias"), nullptr);
}

// Named layers that say what the model says are the model, to the bit.
TEST(Layers, SayingTheSameTwiceChangesNothing) {
  const Model plain(layers_config(), kit::kTrainable),
      named(layers_config("layers: {a: {sub_layers: [mixer, ffn]}, b: {}}, layer_types: [a, b]"), kit::kTrainable);
  const kit::Batch batch = kit::random_batch({5, 2}, 11, 4);
  EXPECT_EQ(kit::bit_difference(kit::forward(plain, batch.ids, batch.sequences).value(),
                                kit::forward(named, batch.ids, batch.sequences).value()),
            "");
}

TEST(Layers, SubLayersHaveTheirOwnOrderPartsAndScale) {
  const std::string halves =
      "num_hidden_layers: 1, layers: {c: {sub_layers: [{ffn: {type: gelu, intermediate_size: 6}, scale: 0.5}, mixer, "
      "{ffn: {type: gelu, intermediate_size: 6}, scale: 0.5}]}}, layer_types: [c]";
  Model model(layers_config(halves), kit::kTrainable);
  kit::randomise(model.parameters(), 3);
  EXPECT_NE(model.parameters().find("layers.0.ffn.up.weight"), nullptr);
  EXPECT_NE(model.parameters().find("layers.0.ffn_2.up.weight"), nullptr);
  // x + ffn/2, then + mixer, then + ffn_2/2, written out.
  const kit::Batch batch = kit::random_batch({5}, 11, 4);
  Pass pass;
  pass.want({Tap::Kind::rows, 0});
  model.run({batch.ids, batch.sequences}, pass);
  kit::Bench bench;
  const auto embedding = bench.make<Embedding>("lookup", {.vocab_size = 11, .hidden_size = 8}, "{}", "embedding");
  const auto norm = [&](const std::string& path) { return bench.make<Norm>("rms", {.hidden_size = 8}, "{}", path); };
  const auto ffn = [&](const std::string& path) {
    return bench.make<Ffn>("gelu", {.hidden_size = 8}, "{intermediate_size: 6}", path);
  };
  const auto rotary =
      bench.make<Position>("rotary", {.hidden_size = 8, .max_position_embeddings = 9}, "{}", "position");
  const auto mixer =
      bench.make<Mixer>("attention", {.hidden_size = 8, .max_position_embeddings = 9, .position = rotary.get()},
                        "{num_attention_heads: 2}", "layers.0.mixer");
  const auto first_norm = norm("layers.0.ffn_norm"), mixer_norm = norm("layers.0.mixer_norm"),
             last_norm = norm("layers.0.ffn_2_norm");
  const auto first = ffn("layers.0.ffn"), last = ffn("layers.0.ffn_2");
  for (Parameter& p : bench.parameters().all())
    copy_into(p.master.value(), model.parameters().find(p.name)->master.value());
  Var x = embedding->forward(batch.ids);
  x = add(x, first->forward({first_norm->forward(x), batch.sequences}), 1, 0.5);
  x = add(x, mixer->forward({mixer_norm->forward(x), batch.sequences}));
  x = add(x, last->forward({last_norm->forward(x), batch.sequences}), 1, 0.5);
  EXPECT_LE(kit::largest_difference(pass.get({Tap::Kind::rows, 0}).value(), x.value()), 1e-13);
}

TEST(Layers, MayHaveAPositionOfTheirOwn) {
  const Model own(layers_config("layers: {a: {position: none}}, layer_types: [a, a]"), kit::kTrainable),
      none(layers_config("position: none"), kit::kTrainable), rotary(layers_config(), kit::kTrainable);
  const kit::Batch batch = kit::random_batch({5, 2}, 11, 4);
  const Tensor rows = kit::forward(own, batch.ids, batch.sequences).value();
  EXPECT_EQ(kit::bit_difference(rows, kit::forward(none, batch.ids, batch.sequences).value()), "");
  EXPECT_NE(kit::bit_difference(rows, kit::forward(rotary, batch.ids, batch.sequences).value()), "");
}

TEST(Layers, RefuseWhatCannotBe) {
  EXPECT_NE(error_of("layers: {a: {position: learned}}, layer_types: [a, a]")
                .find("adds to the embedded rows, which a layer does not have"),
            std::string::npos);
  EXPECT_NE(error_of("layers: {a: {sub_layers: [mixer, fnn]}}, layer_types: [a, a]")
                .find("'fnn' in model.layers.a.sub_layers is no sub-layer"),
            std::string::npos);
  EXPECT_NE(error_of("layers: {a: {sub_layers: [cross]}}, layer_types: [a, a]").find("which reads a source"),
            std::string::npos);
  EXPECT_NE(error_of("layers: {a: {mixr: mlp}}, layer_types: [a, a]").find("did you mean 'mixer'?"), std::string::npos);
  EXPECT_EQ(error_of("layers: {a: {}, b: {}}, layer_types: [a, a]"),
            "2 model: layers defines 'b', which layer_types does not use; remove it, name it there, or give "
            "layer_pattern");
  EXPECT_NE(error_of("layers: {a: {}}, mixers: {a: mlp}, layer_types: [a, a]").find("both define 'a'"),
            std::string::npos);
}

// Parts that need a row of every token, and what leaves fewer.
TEST(Layers, RefuseFewerRowsThanAPartNeeds) {
  const auto refused = [](const std::string& more, const std::string& why, const std::string& head = "") {
    const std::string error =
        error_of(cat("architecture: encoder, num_labels: 2, tie_word_embeddings: false, head: {type: classify",
                     head.empty() ? "" : ", ", head, "}, ", more));
    EXPECT_TRUE(error.starts_with("2 ") && error.find(why) != std::string::npos) << error;
  };
  const std::string halved = "layers: {a: {}, b: {compressor: pool}}, layer_types: [a, b]",
                    distilled = "pooling: cls, dense: false, distillation: true";
  refused(halved + ", mixer: {type: attention, num_attention_heads: 2, heads: static_emb_qk}",
          "layers.1.mixer reads the embedded rows of all tokens, and the compressor of layers.1");
  refused(halved, "reads the row of the second token, which a compressor in model.layers may not leave", distilled);
  refused("stack: {type: token_skip, skipped: drop}", "which stack token_skip may not leave", distilled);
  refused("encoders: {x: {stack: plain}}, combine: pool", "which combine pool may not leave", distilled);
  refused("encoders: {x: {stack: plain}}, combine: sum, stack: {type: token_skip, skipped: drop}",
          "combine sum needs as many rows of each encoder, and stack token_skip leaves as many as it finds");
  refused(
      "layers: {a: {compressor: {type: pool, spans: word}}, b: {mixer: {type: rnd_emb_qk, num_attention_heads: 2}}}, "
      "layer_types: [a, b]",
      "layers.0.compressor reads the column 'word' of a text, which the reference sequence");
}

// Losses and taps are the same whether layers are recomputed or not, and so are all gradients.
TEST(Passes, LossesAndTapsSurviveRecomputing) {
  const kit::Batch batch = kit::random_batch({5, 2}, 11, 4);
  std::vector<Tensor> seen[2];
  for (const bool recompute : {false, true}) {
    Model model(layers_config("ffn: {type: relu, intermediate_size: 6, activation_penalty: 3}"), kit::kTrainable);
    kit::randomise(model.parameters(), 3);
    model.set_recompute(recompute);
    Pass pass;
    pass.want(Tap::Kind::rows);
    Tape tape;
    const Rows rows = model.run({batch.ids, batch.sequences}, pass);
    const Var loss = Model::with_losses(sum(mul(rows.x, pass.get({Tap::Kind::rows, 0}))), pass, 0.5);
    tape.backward(loss);
    ASSERT_EQ(pass.losses().size(), 1u);
    seen[recompute].push_back(pass.losses().at("activation_penalty").value());
    seen[recompute].push_back(loss.value());
    for (const Parameter& p : model.parameters().all()) seen[recompute].push_back(p.master.grad());
  }
  for (size_t i = 0; i < seen[0].size(); ++i) EXPECT_EQ(kit::bit_difference(seen[0][i], seen[1][i]), "") << i;
}

// The penalty is the mean activation of each layer, added up.
TEST(Passes, AnAuxiliaryLossIsAddedToTheObjectives) {
  const kit::Batch batch = kit::random_batch({6}, 11, 4);
  Model with(layers_config("ffn: {type: relu, intermediate_size: 6, activation_penalty: 3}"), kit::kTrainable),
      without(layers_config(), kit::kTrainable);
  const auto loss = [&](const Model& model) {
    const Rehearsal training;
    return value_at(kit::loss(model, batch.ids, kit::labels_for(model, batch), batch.sequences, 0, 1).value(), 0);
  };
  EXPECT_GT(loss(with), loss(without));
}

}  // namespace
}  // namespace lithe
