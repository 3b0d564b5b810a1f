#include <gtest/gtest.h>

#include <cmath>

#include "lithe/ops/basic.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

struct RecurrentReader {
  explicit RecurrentReader(const std::string& options, int64_t d = 6)
      : mixer(bench.make<Mixer>("recurrent_attention", {.hidden_size = d, .causal = false, .cross = true}, options)) {
    kit::randomise(bench.parameters(), 2);
  }
  Tensor operator()(const Tensor& x, const Tensor& source) const {
    const Rows memory{source, Sequences::single(source.rows())};
    return mixer->forward({.x = x, .sequences = Sequences::single(x.rows()), .source = &memory}).value();
  }
  kit::Bench bench;
  std::unique_ptr<Mixer> mixer;
};

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

// oracle: app.enc_hybrid_decoder
TEST(RecurrentAttention, ParametersAreThoseOfTheSpecification) {
  for (const int64_t d : {6, 8, 12})
    for (const auto& [cell, gates] : {std::pair<std::string, int64_t>{"lstm", 4}, {"gru", 3}, {"elman", 1}}) {
      const std::string options = "{num_attention_heads: 2, cell: " + cell;
      // G (d_in d + d^2 + d) and attention 4 d^2; d_in is 2 d with input feeding.
      EXPECT_EQ(RecurrentReader(options + ", input_feeding: false}", d).bench.parameters().count(),
                gates * (d * d + d * d + d) + 4 * d * d);
      EXPECT_EQ(RecurrentReader(options + "}", d).bench.parameters().count(),
                gates * (2 * d * d + d * d + d) + 4 * d * d);
      EXPECT_EQ(RecurrentReader(options + ", two_biases: true, combine: tanh}", d).bench.parameters().count(),
                gates * (3 * d * d + 2 * d) + 6 * d * d);
    }
}

// oracle: app.enc_hybrid_decoder
TEST(RecurrentAttention, TheStateIsHiddenRowsAndTheSourcesKeysAndValues) {
  const int64_t d = 8;
  const auto bytes = [&](const std::string& options) {
    return RecurrentReader(options, d).mixer->state_bytes({3, 4}, DType::bf16);
  };
  EXPECT_EQ(bytes("{num_attention_heads: 2, input_feeding: false}"), 2 * 2 * d * 4 + 7 * 2 * d * 2);  // 2 d, and K, V
  EXPECT_EQ(bytes("{num_attention_heads: 2}"), 2 * 3 * d * 4 + 7 * 2 * d * 2);
  EXPECT_EQ(bytes("{num_attention_heads: 2, cell: gru, input_feeding: false}"), 2 * d * 4 + 7 * 2 * d * 2);
}

// A source of one row has one context, whatever asks: then each step can be written down.
TEST(RecurrentAttention, InputFeedingIsItsClosedForm) {
  RecurrentReader reader("{num_attention_heads: 3, combine: tanh}");
  const int64_t d = 6, T = 4;
  const Tensor x = kit::normal({T, d}, DType::f64, 1), source = kit::normal({1, d}, DType::f64, 3);
  const auto of = [&](const std::string& name) { return reader.bench["part." + name]; };
  const Tensor context =
      kit::product(kit::product(kit::product(source, of("attention.heads.v.weight")), of("attention.output.weight")),
                   of("combine.context.weight"));
  Tensor h = zeros({1, d}, DType::f64), fed = zeros({1, d}, DType::f64);
  std::vector<double> c(size_t(d), 0.0);
  const Tensor got = reader(x, source);
  for (int64_t t = 0; t < T; ++t) {
    const Tensor gates =
        kit::sum(kit::sum(kit::product(kit::rows_of(x, {t}), of("rows.weight")), kit::product(fed, of("fed.weight"))),
                 kit::product(h, of("recurrent.weight")));
    const auto gate = [&](int64_t part, int64_t i) {
      return value_at(gates, part * d + i) + value_at(of("rows.bias"), part * d + i);
    };
    h = empty({1, d}, DType::f64), fed = empty({1, d}, DType::f64);
    for (int64_t i = 0; i < d; ++i) {
      c[size_t(i)] = sigmoid_of(gate(1, i)) * c[size_t(i)] + sigmoid_of(gate(0, i)) * std::tanh(gate(2, i));
      set_value(h, i, sigmoid_of(gate(3, i)) * std::tanh(c[size_t(i)]));
    }
    const Tensor mixed = kit::product(h, of("combine.hidden.weight"));
    for (int64_t i = 0; i < d; ++i) {
      set_value(fed, i, std::tanh(value_at(mixed, i) + value_at(context, i)));
      EXPECT_NEAR(value_at(got, t * d + i), value_at(fed, i), 1e-12) << t << " " << i;
    }
  }
}

// With weights of zero on what is fed both ways of running are one.
TEST(RecurrentAttention, WithoutFeedingAllRowsRunAtOnce) {
  for (const std::string cell : {"lstm", "gru", "elman"}) {
    RecurrentReader fed("{num_attention_heads: 2, cell: " + cell + "}"),
        whole("{num_attention_heads: 2, input_feeding: false, cell: " + cell + "}");
    fill_zero(fed.bench["part.fed.weight"]);
    for (Parameter& p : whole.bench.parameters().all()) copy_into(p.master.value(), fed.bench[p.name]);
    const Tensor x = kit::normal({5, 6}, DType::f64, 1), source = kit::normal({3, 6}, DType::f64, 3);
    EXPECT_EQ(kit::close(fed(x, source), whole(x, source), 64), "") << cell;
  }
}

TEST(RecurrentAttention, RefusesWhatHasNoMeaning) {
  const auto refusal = [](const std::string& options, bool cross) -> std::string {
    try {
      kit::Bench bench;
      bench.make<Mixer>("recurrent_attention", {.hidden_size = 8, .causal = false, .cross = cross}, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::usage);
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal("{}", false).find("model.cross_attention"), std::string::npos);
  EXPECT_NE(refusal("{num_attention_heads: 2, heads: static_emb_qk}", true).find("hidden row"), std::string::npos);
  EXPECT_NE(refusal("{num_attention_heads: 2, map: below}", true).find("map below"), std::string::npos);
}

constexpr const char* kHybrid = R"({architecture: encoder_decoder, hidden_size: 8, num_hidden_layers: 2, vocab_size: 11,
  max_position_embeddings: 12, position: none, tie_word_embeddings: false, mixer: {type: attention, num_attention_heads: 2},
  ffn: {type: relu, intermediate_size: 12}, norm: layer,
  layers: {reader: {sub_layers: [{cross: {type: recurrent_attention, num_attention_heads: 2}}]}}, layer_types: [reader, reader],
  encoder: {num_hidden_layers: 1, layers: {}, layer_types: [], mixer: {type: attention, num_attention_heads: 2}}})";

Tensor hybrid_logits(const Model& model, const Tensor& tokens, const Tensor& source) {
  const ModelInput input{.tokens = tokens,
                         .sequences = Sequences::single(tokens.dim(0)),
                         .sources = {{kSource, {source, Sequences::single(source.dim(0))}}}};
  Pass pass;
  return model.logits(model.run(input, pass, nullptr)).value();
}

// oracle: app.enc_hybrid_decoder
TEST(RecurrentAttention, TheOrderOfASourceWithoutPositionsDoesNotMatter) {
  const Model model(kit::model_config(kHybrid), kit::kExact);
  kit::randomise(const_cast<Model&>(model).parameters(), 3);  // NOLINT: a new model
  const Tensor tokens = kit::ids_of({1, 4, 2, 9, 3});
  EXPECT_EQ(kit::close(hybrid_logits(model, tokens, kit::ids_of({5, 1, 7, 2})),
                       hybrid_logits(model, tokens, kit::ids_of({7, 2, 5, 1})), 256),
            "");
}

// oracle: app.enc_hybrid_decoder
TEST(RecurrentAttention, AFrozenEncoderGetsNoGradient) {
  Model model(kit::model_config(kHybrid), kit::kTrainable);
  kit::randomise(model.parameters(), 3);
  model.parameters().freeze("encoder.*");
  const Tensor tokens = kit::ids_of({1, 4, 2}), source = kit::ids_of({5, 6, 7});
  Tape tape;
  const ModelInput input{
      .tokens = tokens, .sequences = Sequences::single(3), .sources = {{kSource, {source, Sequences::single(3)}}}};
  Pass pass;
  tape.backward(lithe::sum(model.logits(model.run(input, pass, nullptr))));
  for (const Parameter& p : model.parameters().all()) {
    const bool wants = p.name.find("recurrent.weight") != std::string::npos;
    if (p.name.starts_with("encoder.") || wants) {
      EXPECT_EQ(p.master.grad().defined(), wants) << p.name;
    }
  }
}

}  // namespace
}  // namespace lithe
