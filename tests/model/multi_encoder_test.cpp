// Several encoders that become one: model.combine.
#include <gtest/gtest.h>

#include "lithe/ops/basic.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

constexpr const char* kCombined =
    "{architecture: encoder_decoder, vocab_size: 11, hidden_size: 8, num_hidden_layers: 1, max_position_embeddings: "
    "12, position: sinusoidal, mixer: {type: attention, num_attention_heads: 2}, ffn: {type: gelu, intermediate_size: "
    "6}, encoders: {syntax: {}}, share_encoder_decoder_embeddings: false, combine: sum}";

constexpr const char* kConcat =
    "combine: {type: concat_len, mixer: {type: attention, num_attention_heads: 2}, ffn: {type: gelu, "
    "intermediate_size: "
    "6}}";

std::unique_ptr<Model> made(const std::string& yaml, const std::string& more = "",
                            const ModelOptions& options = kit::kTrainable) {
  auto model = std::make_unique<Model>(kit::model_config(yaml, more), options);
  kit::randomise(model->parameters(), 3);
  return model;
}

ModelInput text(const std::vector<int>& ids, const std::vector<int64_t>& offsets) {
  return {kit::ids_of(ids), Sequences(offsets)};
}

// Two pairs; the second source of the syntax encoder.
ModelInput pairs(const std::vector<int>& syntax = {7, 8, 9, 1, 2},
                 const std::vector<int64_t>& syntax_offsets = {0, 3, 5}) {
  ModelInput out = text({1, 2, 3, 4, 5}, {0, 3, 5});
  out.sources[kSource] = text({4, 5, 6, 1, 2}, {0, 3, 5});
  out.sources["syntax"] = text(syntax, syntax_offsets);
  return out;
}

Tensor run(const Model& model, const ModelInput& input) {
  Pass pass;
  return clone(model.run(input, pass).x.value());
}

// oracle: syn.multi_encoder
TEST(MultiEncoder, SwappingEncodersAndSourcesChangesNothingInASum) {
  const auto model = made(kCombined);
  const Tensor whole = run(*model, pairs());
  ModelInput swapped = pairs();
  std::swap(swapped.sources[kSource], swapped.sources["syntax"]);
  EXPECT_GT(kit::largest_difference(run(*model, swapped), whole), 1e-4);
  for (Parameter& p : model->parameters().all()) {
    if (!p.name.starts_with("encoder.")) continue;
    const Tensor own = clone(p.master.value()),
                 other = model->parameters().find("encoders.syntax." + p.name.substr(8))->master.value();
    copy_into(p.master.value(), other), copy_into(other, own);
  }
  model->parameters().refresh_views();
  EXPECT_EQ(kit::bit_difference(run(*model, swapped), whole), "");
}

// oracle: syn.multi_encoder
TEST(MultiEncoder, EveryCombinationHasGradientsAndDecodesAsItReads) {
  for (const std::string& more :
       {std::string("combine: sum"), std::string("combine: gate"), std::string(kConcat),
        std::string("combine: {type: concat_len, rows: text, segment_embeddings: true, ffn: gelu, mixer: {type: "
                    "attention, num_attention_heads: 1}}"),
        std::string("combine: {type: sum, align: words}, encoders: {syntax: {layers: {short: {compressor: pool}}, "
                    "layer_types: [short]}}"),
        std::string("combine: {type: gate, align: phrases}, encoders: {syntax: {layers: {short: {compressor: pool}}, "
                    "layer_types: [short]}}")}) {
    const auto model = made(kCombined, more);
    const ModelInput input = pairs();
    const Tensor whole = run(*model, input);
    EXPECT_GT(kit::largest_difference(run(*model, pairs({7, 8, 10, 1, 2})), whole), 1e-5) << more;
    const auto state = model->make_state(2, 3);
    model->read_sources(*state, input.sources);
    std::vector<Tensor> first, second;
    for (int64_t t = 0; t < 3; ++t) {
      std::vector<int> ids{int(input.tokens.data<int32_t>()[t])};
      if (t < 2) ids.push_back(input.tokens.data<int32_t>()[3 + t]);
      const Tensor y = clone(
          kit::forward(*model, kit::ids_of(ids), model->continue_sequences(*state, {1, t < 2 ? 1 : 0}), state.get())
              .value());
      first.push_back(clone(y.slice(0, 1)));
      if (t < 2) second.push_back(clone(y.slice(1, 2)));
    }
    first.insert(first.end(), second.begin(), second.end());
    EXPECT_EQ(kit::close(kit::concatenate(first), whole, 500), "") << more;
    std::string where;
    EXPECT_LE(kit::gradient_error(
                  model->parameters(),
                  [&](const std::vector<Var>&) {
                    Pass pass;
                    return std::vector<Var>{
                        model->loss_of(model->run(input, pass), {}, {.labels = kit::ids_of({2, 3, 4, 5, 6})})};
                  },
                  {}, &where),
              1e-6)
        << more << where;
    // A pair alone.
    ModelInput one = text({4, 5}, {0, 2});
    one.sources[kSource] = text({1, 2}, {0, 2});
    one.sources["syntax"] = text({1, 2}, {0, 2});
    EXPECT_EQ(kit::bit_difference(run(*model, one), clone(whole.slice(3, 5))), "") << more;
  }
}

// oracle: syn.multi_encoder
TEST(MultiEncoder, AFrozenBranchHasNoGradients) {
  ModelOptions options = kit::kTrainable;
  options.frozen = {"encoders.syntax.*"};
  const auto model = made(kCombined, "combine: gate", options);
  const ModelInput input = pairs();
  {
    Tape tape;
    Pass pass;
    tape.backward(model->loss_of(model->run(input, pass), {}, {.labels = kit::ids_of({2, 3, 4, 5, 6})}));
  }
  for (const Parameter& p : model->parameters().all()) {
    const Tensor grad = p.master.grad();
    double most = 0;
    for (int64_t i = 0; grad.defined() && i < grad.numel(); ++i) most = std::max(most, std::abs(value_at(grad, i)));
    if (p.name.starts_with("encoders.syntax.")) {
      EXPECT_EQ(most, 0) << p.name;
    } else if (p.name.starts_with("encoder.")) {
      EXPECT_GT(most, 0) << p.name;
    }
  }
}

// An encoder and another one for its head; without a source of its own the other reads the text.
constexpr const char* kEncoders =
    "{architecture: encoder, vocab_size: 11, hidden_size: 8, num_hidden_layers: 1, max_position_embeddings: 12, "
    "num_labels: 3, tie_word_embeddings: false, mixer: {type: attention, num_attention_heads: 2}, ffn: {type: gelu, "
    "intermediate_size: 6}, encoders: {other: {}}, combine: pool, head: classify}";

// oracle: ms.multi_encoder
TEST(MultiEncoder, AnEncoderIsCombinedForItsHead) {
  const ModelInput own = text({1, 2, 3, 4, 5}, {0, 3, 5});
  for (const std::string& more :
       {std::string("combine: pool"), std::string("combine: {type: sum}, head: tag"),
        std::string("combine: gate, head: tag"),
        std::string("combine: {type: sum, align: words}, head: tag, encoders: {other: {layers: {short: {compressor: "
                    "{type: pool, kind: selfattn_cls}}}, layer_types: [short]}}"),
        std::string("head: tag, combine: {type: concat_len, rows: text, num_hidden_layers: 1, mixer: {type: attention, "
                    "num_attention_heads: 1}, ffn: {type: gelu, intermediate_size: 4}}")}) {
    const auto model = made(kEncoders, more);
    Pass pass;
    const Rows rows = model->run(own, pass);
    const bool by_row = more.find("tag") != std::string::npos;
    EXPECT_EQ(model->logits(rows).shape(), (Shape{by_row ? 5 : 2, 3})) << more;
    ModelInput given = own;
    given.sources["other"] = own;
    EXPECT_EQ(kit::bit_difference(run(*model, given), run(*model, own)), "") << more;
    given.sources["other"] = text({1, 2, 9, 4, 5}, {0, 3, 5});
    EXPECT_GT(kit::largest_difference(run(*model, given), run(*model, own)), 1e-6) << more;
    std::string where;
    EXPECT_LE(
        kit::gradient_error(
            model->parameters(),
            [&](const std::vector<Var>&) {
              Pass again;
              return std::vector<Var>{model->loss_of(
                  model->run(own, again), {}, {.labels = by_row ? kit::ids_of({0, 1, 2, 0, 1}) : kit::ids_of({0, 2})})};
            },
            {}, &where),
        1e-6)
        << more << where;
  }
}

// Spans of one word, and one set of weights: both branches are the same.
// oracle: ms.multi_encoder
TEST(MultiEncoder, PhrasesOfOneWordAreWords) {
  const auto model = made(kEncoders,
                          "head: tag, combine: {type: sum, align: words}, encoders: {other: {layers: {short: "
                          "{compressor: {type: pool, spans: phrases}}}, layer_types: [short]}}");
  for (Parameter& p : model->parameters().all())
    if (p.name.starts_with("encoders.other."))
      copy_into(p.master.value(), model->parameters().find(p.name.substr(15))->master.value());
  model->parameters().refresh_views();
  ModelInput input = text({1, 2, 3, 4, 5}, {0, 5});
  input.columns["phrases"] = kit::ids_of({0, 1, 2, 3, 4});
  const Tensor twice = run(*model, input);
  const auto single = made(kEncoders, "encoders: {}, combine: {}, head: tag");
  for (Parameter& p : single->parameters().all())
    if (!p.name.starts_with("head.")) copy_into(p.master.value(), model->parameters().find(p.name)->master.value());
  single->parameters().refresh_views();
  const Tensor once = run(*single, text({1, 2, 3, 4, 5}, {0, 5}));
  for (int64_t i = 0; i < once.numel(); ++i) EXPECT_EQ(value_at(twice, i), 2 * value_at(once, i));
  // Where spans begin matters to the branch of phrases alone.
  input.columns["phrases"] = kit::ids_of({0, 0, 1, 1, 1});
  EXPECT_GT(kit::largest_difference(run(*model, input), twice), 1e-4);
}

TEST(MultiEncoder, SaysWhatDoesNotGoTogether) {
  const auto refused = [](const std::string& yaml, const std::string& more) {
    return kit::coded_error_of([&] { Model(kit::model_config(yaml, more), kit::kMeta); });
  };
  EXPECT_NE(
      refused(kCombined, "combine: pool").find("2 model: combine pool gives 16 channels, and cross-attention reads 8"),
      std::string::npos);
  EXPECT_NE(refused(kEncoders, "head: tag").find("combine pool does not give each a row"), std::string::npos);
  EXPECT_NE(refused(kEncoders, "combine: {}").find("say by model.combine how they become one"), std::string::npos);
  EXPECT_NE(refused(kEncoders, "encoders: {}").find("combine is of several encoders"), std::string::npos);
  EXPECT_NE(refused(kCombined, "combine: gat").find("gate"), std::string::npos);
  EXPECT_NE(refused(kEncoders, "architecture: decoder, head: lm").find("encoder"), std::string::npos);
  // Encoders that read one text number its tags in one way.
  EXPECT_NE(refused(kEncoders,
                    "encoders: {syntax: {embedding: {type: tag_sum, tags: {upos: [A, B]}}}}, embedding: "
                    "{type: tag_ffn, tags: {upos: [B, A]}}")
                .find("2 model: encoders.syntax.embedding.tags and embedding.tags number the values of 'upos' in two "
                      "ways"),
            std::string::npos);
  EXPECT_EQ(refused(kEncoders,
                    "encoders: {syntax: {embedding: {type: tag_sum, tags: {upos: [A, B]}}}}, embedding: "
                    "{type: tag_ffn, tags: {upos: [A, B]}}"),
            "no error");
  const auto model = made(kCombined);
  const auto state = model->make_state(2, 3);
  EXPECT_EQ(kit::coded_error_of([&] {
              model->read_sources(*state, {{kSource, pairs().sources.at(kSource)}});
            }),
            "1 model: the encoders are combined, and 1 of their 2 sources are given; give all at once");
}

}  // namespace
}  // namespace lithe
