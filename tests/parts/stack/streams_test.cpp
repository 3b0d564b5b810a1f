#include <gtest/gtest.h>

#include "lithe/ops/basic.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

std::string streams_model(const std::string& stack, int64_t layers) {
  return cat("{architecture: encoder, vocab_size: 19, hidden_size: 8, num_hidden_layers: ", layers,
             ", tie_word_embeddings: false, position: none, max_position_embeddings: 32, mixer: {type: attention, "
             "num_attention_heads: 2}, ffn: {type: gelu, intermediate_size: 12}, head: mlm, stack: ",
             stack, "}");
}

std::unique_ptr<Model> streams_made(const std::string& stack, int64_t layers, uint64_t seed = 6) {
  auto model = std::make_unique<Model>(kit::model_config(streams_model(stack, layers)), kit::kTrainable);
  kit::randomise(model->parameters(), seed);
  return model;
}

constexpr const char* kOneEach = "{type: streams, speech_layers: 1, text_layers: 1, alignment_loss_coef: 0.5}";

// Sequences of ids, and of each row whether it is of the modality.
ModelInput spoken(const std::vector<int>& ids, const std::vector<int>& of, std::vector<int64_t> offsets = {}) {
  if (offsets.empty()) offsets = {0, int64_t(ids.size())};
  ModelInput out{kit::ids_of(ids), Sequences(offsets)};
  out.columns["modality"] = kit::ids_of(of);
  return out;
}

Rows streamed(const Model& model, const ModelInput& input) {
  Pass pass;
  return model.run(input, pass, nullptr);
}

// oracle: app.st_two_stream
TEST(Streams, TextAloneIsTheTextModel) {
  const auto both = streams_made(kOneEach, 3), text = streams_made("plain", 2);
  for (Parameter& p : text->parameters().all()) {
    std::string name = p.name;
    for (const int layer : {1, 0})
      if (const std::string from = cat("layers.", layer, "."); name.starts_with(from))
        name = cat("layers.", layer + 1, ".", name.substr(from.size()));
    copy_into(p.master.value(), both->parameters().find(name)->master.value());
  }
  const Tensor want = streamed(*text, {kit::ids_of({1, 5, 3, 3}), Sequences::single(4)}).x.value();
  EXPECT_EQ(kit::bit_difference(streamed(*both, {kit::ids_of({1, 5, 3, 3}), Sequences::single(4)}).x.value(), want),
            "");
  EXPECT_EQ(kit::bit_difference(streamed(*both, spoken({1, 5, 3, 3}, {0, 0, 0, 0})).x.value(), want), "");
}

// oracle: app.st_two_stream
TEST(Streams, SpeechAloneDoesNotReadTheTextsWeights) {
  const auto model = streams_made(kOneEach, 3);
  const ModelInput speech = spoken({1, 5, 3}, {1, 1, 1});
  const Tensor before = clone(streamed(*model, speech).x.value());
  for (Parameter& p : model->parameters().all())
    if (p.name.starts_with("layers.1.")) fill_zero(p.master.value());
  EXPECT_EQ(kit::bit_difference(streamed(*model, speech).x.value(), before), "");
  for (Parameter& p : model->parameters().all())
    if (p.name.starts_with("layers.0.")) fill_zero(p.master.value());
  EXPECT_NE(kit::bit_difference(streamed(*model, speech).x.value(), before), "");
}

// An example that lacks a stream, beside one that has both, is the example alone.
// oracle: app.st_two_stream
TEST(Streams, AMaskedStreamIsNone) {
  const auto model = streams_made(kOneEach, 3);
  const Rows all = streamed(*model, spoken({1, 5, 3, 7, 2, 9, 4, 4}, {0, 0, 1, 1, 1, 1, 0, 0}, {0, 4, 6, 8}));
  EXPECT_EQ(all.sequences.offsets(), (std::vector<int64_t>{0, 4, 6, 8}));
  const auto part = [&](int64_t begin, int64_t end) { return all.x.value().slice(begin, end); };
  EXPECT_EQ(kit::close(part(4, 6), streamed(*model, spoken({2, 9}, {1, 1})).x.value(), 64), "");
  EXPECT_EQ(kit::close(part(6, 8), streamed(*model, spoken({4, 4}, {0, 0})).x.value(), 64), "");
  EXPECT_EQ(kit::close(part(0, 4), streamed(*model, spoken({1, 5, 3, 7}, {0, 0, 1, 1})).x.value(), 64), "");
  // Both streams meet, speech first, in the shared layer.
  EXPECT_EQ(kit::close(part(0, 4), streamed(*model, spoken({3, 7, 1, 5}, {1, 1, 0, 0})).x.value(), 64), "");
  EXPECT_NE(kit::close(part(0, 2), streamed(*model, spoken({3, 7}, {1, 1})).x.value(), 64), "");
}

// oracle: app.st_two_stream
TEST(Streams, TheAlignmentLossIsOfTheMeans) {
  const auto loss = [](const std::string& stack, const ModelInput& input) {
    const auto model = streams_made(stack, 2);
    Tape tape;
    Pass pass;
    model->run(input, pass, nullptr);
    return pass.losses().count("alignment") ? value_at(pass.losses().at("alignment").value(), 0) : -1;
  };
  const std::string none = "{type: streams, speech_layers: 0, text_layers: 0, alignment_loss_coef: 1}";
  EXPECT_EQ(loss(none, spoken({3, 7, 3, 7}, {1, 1, 0, 0})), 0);
  EXPECT_NEAR(loss(none, spoken({3, 7, 7, 3}, {1, 1, 0, 0})), 0, 1e-30);
  EXPECT_GT(loss(none, spoken({3, 7, 3, 5}, {1, 1, 0, 0})), 0);
  EXPECT_EQ(loss(none, spoken({3, 7, 3, 5}, {1, 1, 1, 1})), -1);  // there is nothing to align
  EXPECT_EQ(loss("{type: streams, speech_layers: 0, text_layers: 0}", spoken({3, 7, 3, 5}, {1, 1, 0, 0})), -1);
}

TEST(Streams, HasGradientsThroughBothStreams) {
  const auto model = streams_made(kOneEach, 3);
  const ModelInput input = spoken({1, 5, 3, 7, 2, 9}, {0, 0, 1, 1, 1, 1}, {0, 4, 6});
  std::string where;
  EXPECT_LE(kit::gradient_error(
                model->parameters(),
                [&](const std::vector<Var>&) {
                  Pass pass;
                  const Var x = model->run(input, pass, nullptr).x;
                  return std::vector<Var>{x, pass.losses().at("alignment")};
                },
                {}, &where),
            1e-6)
      << where;
}

TEST(Streams, RefusesMoreLayersThanThereAre) {
  EXPECT_NE(kit::coded_error_of([] {
              streams_made("{type: streams, speech_layers: 2, text_layers: 2}", 3);
            }).find("more than the 3 layers"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
