#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/basic.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

constexpr int64_t kReversibleWidth = 8, kReversibleVocab = 11;

// `more` replaces keys, or adds some.
ModelConfig reversible_config(int64_t layers, const std::string& streams = "duplicate", const std::string& more = "") {
  Node node = parse_yaml(
      cat("{hidden_size: ", kReversibleWidth, ", vocab_size: ", kReversibleVocab, ", num_hidden_layers: ", layers,
          ", max_position_embeddings: 16, position: none, mixer: {type: attention, "
          "num_attention_heads: 2}, ffn: {type: swiglu, intermediate_size: 12}, stack: {type: "
          "reversible, streams: ",
          streams, "}}"),
      "test");
  const Node changes = parse_yaml("{" + more + "}", "test");
  for (const auto& [key, value] : changes.entries()) node.set(key, value);
  return read_model_config(node);
}

std::unique_ptr<Model> reversible_model(const ModelConfig& config, const ModelOptions& options = kit::kTrainable) {
  auto model = std::make_unique<Model>(config, options);
  kit::randomise(model->parameters(), 3);
  return model;
}

// The model of config(layers), written out: the tape keeps everything.
class WrittenOut {
 public:
  explicit WrittenOut(const Model& model) : bench(model.parameters().all()[0].master.dtype(), model.compute_dtype()) {
    embedding = bench.make<Embedding>("lookup", {.vocab_size = kReversibleVocab, .hidden_size = kReversibleWidth}, "{}",
                                      "embedding");
    const auto norm = [&](const std::string& path) {
      return bench.make<Norm>("rms", {.hidden_size = kReversibleWidth}, "{}", path);
    };
    for (int64_t i = 0; i < model.config().num_hidden_layers; ++i) {
      const std::string layer = cat("layers.", i, ".");
      norms.push_back(norm(layer + "mixer_norm"));
      mixers.push_back(bench.make<Mixer>("attention", {.hidden_size = kReversibleWidth, .max_position_embeddings = 16},
                                         "{num_attention_heads: 2}", layer + "mixer"));
      norms.push_back(norm(layer + "ffn_norm"));
      ffns.push_back(
          bench.make<Ffn>("swiglu", {.hidden_size = kReversibleWidth}, "{intermediate_size: 12}", layer + "ffn"));
    }
    norms.push_back(norm("final_norm"));
    kit::copy_values(bench.parameters(), model.parameters());
  }
  Rows run(const ModelInput& input, Pass&) const {
    const auto& [ids, sequences] = std::tie(input.tokens, input.sequences);
    const DType compute = embedding->forward(ids).dtype(), wide = compute == DType::bf16 ? DType::f32 : compute;
    Var x1 = cast(embedding->forward(ids), wide), x2 = x1;
    for (size_t i = 0; i < mixers.size(); ++i) {
      x1 = add(x1, mixers[i]->forward({norms[2 * i]->forward(cast(x2, compute)), sequences}));
      x2 = add(x2, ffns[i]->forward({norms[2 * i + 1]->forward(cast(x1, compute)), sequences}));
    }
    return {norms.back()->forward(cast(add(x1, x2, 0.5, 0.5), compute)), sequences};
  }
  kit::Bench bench;

 private:
  std::unique_ptr<Embedding> embedding;
  std::vector<std::unique_ptr<Norm>> norms;
  std::vector<std::unique_ptr<Mixer>> mixers;
  std::vector<std::unique_ptr<Ffn>> ffns;
};

// Rows of a forward pass; gradients gather in the parameters.
template <class M>
Tensor differentiate(const M& model, const kit::Batch& batch) {
  Tape tape;
  Pass pass;
  const Var rows = model.run({batch.ids, batch.sequences}, pass).x;
  tape.backward(rows, convert(kit::normal(rows.shape(), DType::f64, 5), rows.dtype()));
  return rows.value();
}

// || got - want || / || want || over all gradients.
double distance(const Parameters& got, Parameters& want) {
  double difference = 0, norm = 0;
  for (const Parameter& p : got.all()) {
    const std::vector<double> a = kit::values(p.master.grad()), b = kit::values(want.find(p.name)->master.grad());
    for (size_t i = 0; i < a.size(); ++i) difference += (a[i] - b[i]) * (a[i] - b[i]), norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

// oracle: share.reversible
TEST(ReversibleStack, GradientsAreThoseOfAModelThatKeepsEverything) {
  const kit::Batch batch = kit::random_batch({5, 1, 7}, kReversibleVocab, 6);
  for (const auto& [dtype, bound] : {std::pair{DType::f64, 1e-12}, {DType::f32, 1e-5}}) {
    const auto model = reversible_model(reversible_config(6), {.dtype = dtype, .compute = dtype, .trainable = true});
    WrittenOut kept(*model);
    EXPECT_EQ(kit::bit_difference(differentiate(*model, batch), differentiate(kept, batch)), "");
    EXPECT_LE(distance(model->parameters(), kept.bench.parameters()), bound) << dtype;
  }
}

// The streams are f32 where the rows are bf16: what is found again is off by 2^-24, which seldom changes the bf16
// number that a sub-layer reads, and the gradient is as far from the exact one as that of keeping everything.
TEST(ReversibleStack, InBf16TheWayBackAddsLittleToRounding) {
  const kit::Batch batch = kit::random_batch({5, 1, 7}, kReversibleVocab, 6);
  const auto exact = reversible_model(reversible_config(12)),
             model = reversible_model(reversible_config(12), {.compute = DType::bf16, .trainable = true});
  kit::copy_values(model->parameters(), exact->parameters());
  WrittenOut kept(*model);
  differentiate(*exact, batch);
  EXPECT_EQ(kit::bit_difference(differentiate(*model, batch), differentiate(kept, batch)), "");
  const double rounding = distance(kept.bench.parameters(), exact->parameters()),
               way_back = distance(model->parameters(), kept.bench.parameters());
  RecordProperty("rounding", cat(rounding));
  RecordProperty("way_back", cat(way_back));
  EXPECT_LT(way_back, rounding / 4);
}

// oracle: share.reversible
TEST(ReversibleStack, WhatIsKeptDoesNotGrowWithDepth) {
  const auto bytes = [](const ModelConfig& config, bool recompute) {
    Model model(config, {.device = Device::meta, .trainable = true});
    model.set_recompute(recompute);
    const kit::Batch batch = kit::random_batch({16, 16}, config, 6, Device::meta);
    const Ledger& book = ledger(Device::meta);
    const int64_t before = book.current(MemoryClass::activations);
    Tape tape;
    const Var rows = kit::forward(model, batch.ids, batch.sequences);
    return book.current(MemoryClass::activations) - before;
  };
  for (const std::string mixer : {"", "mixer: {type: attention, num_attention_heads: 2, heads: static_emb_qk}"})
    for (const std::string streams : {"duplicate", "split"}) {
      EXPECT_EQ(bytes(reversible_config(2, streams, mixer), false),
                bytes(reversible_config(20, streams, mixer), false));
      EXPECT_EQ(bytes(reversible_config(2, streams, mixer), false), bytes(reversible_config(20, streams, mixer), true));
    }
  EXPECT_LT(bytes(reversible_config(2, "duplicate", "stack: plain"), true),
            bytes(reversible_config(20, "duplicate", "stack: plain"), true));
}

// oracle: share.reversible
TEST(ReversibleStack, IsTheIdentityWhenSubLayersAddNothing) {
  for (const std::string streams : {"duplicate", "split"}) {
    const auto model = reversible_model(reversible_config(3, streams)),
               none = reversible_model(reversible_config(0, streams));
    for (Parameter& p : model->parameters().all())
      if (p.name.ends_with("output.weight") || p.name.ends_with("down.weight"))
        for (int64_t i = 0; i < p.master.value().numel(); ++i) set_value(p.master.value(), i, 0);
    kit::copy_values(model->parameters(), none->parameters());
    const kit::Batch batch = kit::random_batch({5, 2}, kReversibleVocab, 6);
    const Tensor rows = differentiate(*model, batch);
    EXPECT_EQ(kit::bit_difference(rows, differentiate(*none, batch)), "") << streams;
    EXPECT_EQ(kit::bit_difference(model->parameters().find("embedding.weight")->master.grad(),
                                  none->parameters().find("embedding.weight")->master.grad()),
              "")
        << streams;
    EXPECT_EQ(kit::bit_difference(rows, kit::forward(*model, batch.ids, batch.sequences).value()), "") << streams;
  }
}

TEST(ReversibleStack, SplitStreamsHaveHalfOfTheChannels) {
  const auto model = reversible_model(reversible_config(2, "split"));
  EXPECT_EQ(model->parameters().find("layers.1.mixer.heads.q.weight")->master.shape(),
            (Shape{kReversibleWidth / 2, kReversibleWidth / 2}));
  EXPECT_EQ(model->parameters().find("layers.1.ffn.up.weight")->master.shape(), (Shape{kReversibleWidth / 2, 12}));
  EXPECT_EQ(model->parameters().find("final_norm.weight")->master.shape(), (Shape{kReversibleWidth}));
  EXPECT_EQ(model->state_bytes({3}), 2 * 3 * 2 * (kReversibleWidth / 2) * 8);  // layers, tokens, keys and values
}

// Whatever a mixer reads beside its rows, in both kinds of streams, also where a part of a layer is left out.
TEST(ReversibleStack, GradientsAgreeWithDifferences) {
  const std::string source =
      "architecture: encoder_decoder, encoder: {num_hidden_layers: 1, stack: {type: "
      "reversible, streams: split}}";
  for (const auto& [streams, more] : std::vector<std::pair<std::string, std::string>>{
           {"split", "position: rotary"},
           {"split", "architecture: encoder, mixer: mlp"},
           {"duplicate", source},
           {"split", "mixer: {type: attention, num_attention_heads: 2, heads: static_emb_qk}"},
           {"duplicate", "mixer: {type: attention, num_attention_heads: 2, heads: static_emb_qk}"},
           {"split", "mixer: {type: rnd_emb_qk, num_attention_heads: 2}"},
           {"duplicate", "mixer: {type: fixed_seq_qk, num_attention_heads: 2}"}}) {
    const auto model = reversible_model(reversible_config(3, streams, more));
    const kit::Batch batch = kit::random_batch({3, 2}, model->config(), 6);
    for (const bool skip : {false, true}) {
      if (skip) model->skip({1}, true);
      std::string where;
      EXPECT_LE(kit::gradient_error(
                    model->parameters(),
                    [&](const std::vector<Var>&) { return std::vector<Var>{kit::forward(*model, batch)}; }, {}, &where),
                1e-6)
          << streams << " " << more << (skip ? ", skipping: " : ": ") << where;
    }
  }
}

TEST(ReversibleStack, DecodingGivesTheWholeSequencesRows) {
  for (const std::string more : {"position: rotary", "mixer: {type: rnd_emb_qk, num_attention_heads: 2}"}) {
    const auto model = reversible_model(reversible_config(3, "split", more));
    const Tensor ids = kit::random_ids(7, kReversibleVocab, 4);
    const Tensor whole = kit::forward(*model, ids, Sequences::single(7)).value();
    const auto state = model->make_state(1, 7);
    for (int64_t t = 0; t < 7; ++t) {
      const Var row =
          kit::forward(*model, clone(ids.slice(t, t + 1)), model->continue_sequences(*state, {1}), state.get());
      EXPECT_EQ(kit::close(row.value(), clone(whole.slice(t, t + 1)), 500), "") << more << " " << t;
    }
  }
}

TEST(ReversibleStack, RefusesWhatCannotBeSplit) {
  EXPECT_NE(kit::coded_error_of([] { reversible_model(reversible_config(1, "split", "hidden_size: 9")); })
                .find("2 model: a stack split into two streams needs an even hidden_size, got 9; change it, or set "
                      "streams: duplicate"),
            std::string::npos);
  EXPECT_NE(
      kit::coded_error_of([] { reversible_model(reversible_config(1, "split", "architecture: encoder_decoder")); })
          .find("2 model: stack reversible gives the decoder's layers 4 channels, the rows that its "
                "cross-attention reads "
                "have 8"),
      std::string::npos);
  EXPECT_NE(kit::coded_error_of([] {
              reversible_model(reversible_config(1, "duplicate", "residual: post"));
            }).find("needs a residual that only adds to the rows, which post does not; set model.residual: pre"),
            std::string::npos);
  EXPECT_NE(kit::coded_error_of([] {
              reversible_model(reversible_config(
                  2, "duplicate", "architecture: encoder, layers: {a: {compressor: pool}}, layer_types: [a, a]"));
            }).find("leave the compressor out, or set model.stack: plain"),
            std::string::npos);
  EXPECT_NE(kit::coded_error_of([] {
              reversible_config(1, "duplicate", "residual: {type: reversible, streams: split}");
            }).find("residual 'reversible' is now model.stack: {type: reversible, streams: duplicate|split}"),
            std::string::npos);
  EXPECT_NE(kit::coded_error_of([] { reversible_config(1, "thrice"); }).find("duplicate, split"), std::string::npos);
}

}  // namespace
}  // namespace lithe
