// What a model reads beside tokens: columns, tokens of other kinds, positions of their own, several sources.
#include <gtest/gtest.h>

#include "lithe/base/token_code.h"
#include "lithe/ops/basic.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

std::unique_ptr<Model> made(const std::string& yaml, const std::string& more = "",
                            const ModelOptions& options = kit::kExact) {
  auto model = std::make_unique<Model>(kit::model_config(yaml, more), options);
  kit::randomise(model->parameters(), 3);
  return model;
}

constexpr const char* kDecoder =
    "{vocab_size: 11, hidden_size: 8, num_hidden_layers: 2, max_position_embeddings: 12, mixer: {type: attention, "
    "num_attention_heads: 2}, ffn: {type: gelu, intermediate_size: 6}}";

Rows run(const Model& model, const ModelInput& input) {
  Pass pass;
  return model.run(input, pass);
}

std::string error_of(const Model& model, const ModelInput& input) {
  return kit::coded_error_of([&] { run(model, input); });
}

// ---- columns

// Adds a column's numbers to all channels.
class Marked final : public Embedding {
 public:
  Marked(const Scope& scope, const NoOptions&, const Args& args)
      : table_(scope.parameter("weight", {args.vocab_size, args.hidden_size}, InitRole::embedding)) {}
  std::vector<std::string> reads_columns() const override { return {"marks"}; }
  Var forward(const Tensor& tokens, const Pass& pass) const override {
    const Tensor& marks = *pass.given("marks");
    const Tensor rows = clone(pick_rows(table_->var(), ids(tokens)).value());
    for (int64_t i = 0; i < rows.numel(); ++i)
      set_value(rows, i, value_at(rows, i) + marks.data<int32_t>()[i / rows.cols()]);
    return Var(rows);
  }

 private:
  Parameter* table_;
  static std::vector<int64_t> ids(const Tensor& tokens) {
    return {tokens.data<int32_t>(), tokens.data<int32_t>() + tokens.numel()};
  }
};

TEST(ModelInput, AColumnThatAPartNeedsIsNeverLeftOutInSilence) {
  static const bool registered = [] {
    Registry::instance().add<Embedding, Marked, NoOptions>("marked", {.summary = "a test's"});
    return true;
  }();
  ASSERT_TRUE(registered);
  const auto model = made(kDecoder, "embedding: marked, tie_word_embeddings: false");
  const Tensor ids = kit::ids_of({1, 2, 3});
  const Sequences one = Sequences::single(3);
  EXPECT_EQ(error_of(*model, {ids, one}),
            "2 model: embedding marked reads the column 'marks' of the input, which has none of this name; give it one "
            "number a token");
  EXPECT_EQ(error_of(*model, {.tokens = ids, .sequences = one, .columns = {{"marks", kit::ids_of({1, 2})}}}),
            "1 model: column 'marks' must have 3 rows, one a token, got [2]");
  const auto rows = [&](const std::vector<int>& marks) {
    return run(*model, {.tokens = ids, .sequences = one, .columns = {{"marks", kit::ids_of(marks)}}}).x.value();
  };
  EXPECT_EQ(kit::bit_difference(rows({0, 1, 0}), rows({0, 1, 0})), "");
  EXPECT_GT(kit::largest_difference(rows({0, 1, 0}), rows({0, 2, 0})), 1e-3);
}

TEST(ModelInput, SegmentsReachTheEmbeddingThroughEveryDoor) {
  const auto model = made(kDecoder, "embedding: {type: lookup, type_vocab_size: 2}");
  const Tensor ids = kit::ids_of({1, 2, 3}), segments = kit::ids_of({0, 0, 1});
  const ModelInput input{.tokens = ids, .sequences = Sequences::single(3), .columns = {{"token_type_ids", segments}}};
  const Tensor whole = run(*model, input).x.value();
  EXPECT_GT(kit::largest_difference(whole, kit::forward(*model, ids, Sequences::single(3)).value()), 1e-3);
  const auto state = model->make_state(1, 3);
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < 3; ++t) {
    Pass pass;
    rows.push_back(model
                       ->run({.tokens = ids.slice(t, t + 1),
                              .sequences = model->continue_sequences(*state, {1}),
                              .columns = {{"token_type_ids", segments.slice(t, t + 1)}}},
                             pass, state.get())
                       .x.value());
  }
  EXPECT_EQ(kit::close(kit::concatenate(rows), whole, 500), "");
}

// ---- tokens of other kinds

constexpr const char* kMixed = "modalities: {image: {type: features, num_features: 5}}";

Tensor patches(int64_t n) {
  const Tensor out = empty({n, 6}, DType::i32), numbers = kit::normal({n, 5}, DType::f32, 9);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < 6; ++j)
      out.data<int32_t>()[i * 6 + j] = j ? code_of_number(numbers.data<float>()[i * 5 + j - 1]) : code_ordinary;
  return out;
}

TEST(ModelInput, PatchesStandAmongWordsWithoutMakingThemWide) {
  const auto model = made(kDecoder, kMixed, kit::kTrainable);
  EXPECT_EQ(model->parameters().find("embedding.weight")->master.shape(), (Shape{11, 8}));
  EXPECT_EQ(model->parameters().find("modalities.image.projection.weight")->master.shape(), (Shape{5, 8}));
  const Tensor image = patches(3);
  const Sequences two({0, 4, 6});
  const auto input = [&](const std::vector<int>& ids) {
    ModelInput out{kit::ids_of(ids), two};
    out.modalities["image"] = {image, {1, 2, 5}};
    return out;
  };
  const Tensor rows = run(*model, input({3, 0, 0, 7, 2, 0})).x.value();
  // What stands in the rows of patches does not count.
  EXPECT_EQ(kit::bit_difference(run(*model, input({3, 9, 4, 7, 2, 1})).x.value(), rows), "");
  // A text without an image is the model's without any.
  const auto plain = made(kDecoder);
  for (Parameter& p : plain->parameters().all())
    kit::assign(p.master.value(), model->parameters().find(p.name)->master.value());
  const Tensor ids = kit::ids_of({3, 1, 4});
  EXPECT_EQ(kit::bit_difference(kit::forward(*model, ids, Sequences::single(3)).value(),
                                kit::forward(*plain, ids, Sequences::single(3)).value()),
            "");
  std::string where;
  EXPECT_LE(kit::gradient_error(
                model->parameters(),
                [&](const std::vector<Var>&) {
                  return std::vector<Var>{model->loss_of(run(*model, input({3, 0, 0, 7, 2, 0})), {},
                                                         {.labels = kit::ids_of({-1, -1, 7, 2, -1, 4})})};
                },
                {}, &where),
            1e-6)
      << where;
}

TEST(ModelInput, WrongPatchesAreRefusedByName) {
  const auto model = made(kDecoder, kMixed);
  ModelInput input{kit::ids_of({1, 2, 3}), Sequences::single(3)};
  input.modalities["sound"] = {patches(1), {0}};
  EXPECT_EQ(error_of(*model, input),
            "2 model: the input has tokens of the modality 'sound', which model.modalities does not define");
  input.modalities = {{"image", {patches(2), {0}}}};
  EXPECT_EQ(error_of(*model, input),
            "1 model: image tokens of 6 ints for sequences of 1 rows must be [1,6], got [2,6]");
  input.modalities = {{"image", {patches(2), {1, 1}}}};
  EXPECT_EQ(error_of(*model, input),
            "1 model: the rows of 'image' must increase below 3, the number of tokens, got 1 after 1");
  input.modalities = {{"image", {patches(2), {1, 3}}}};
  EXPECT_EQ(error_of(*model, input),
            "1 model: the rows of 'image' must increase below 3, the number of tokens, got 3 after 1");
}

// ---- positions

TEST(ModelInput, RowsMayStandWhereTheyStoodBefore) {
  const auto model = made(kDecoder, "architecture: encoder, position: sinusoidal");
  const Sequences one = Sequences::single(3);
  const auto at = [&](const std::vector<int>& positions) {
    return run(*model, {kit::ids_of({1, 2, 3}), one.at(kit::ids_of(positions))}).x.value();
  };
  EXPECT_EQ(kit::bit_difference(at({0, 1, 2}), run(*model, {kit::ids_of({1, 2, 3}), one}).x.value()), "");
  EXPECT_GT(kit::largest_difference(at({0, 1, 2}), at({0, 1, 5})), 1e-3);
  // An encoder sees a set: what counts is where rows stand, not their order.
  const Tensor turned = run(*model, {kit::ids_of({3, 1, 2}), one.at(kit::ids_of({2, 0, 1}))}).x.value();
  EXPECT_EQ(kit::close(kit::rows_of(turned, {1, 2, 0}), at({0, 1, 2}), 64), "");
  EXPECT_EQ(kit::error_of([&] {
              one.at(kit::ids_of({1, 2}));
            }),
            "sequences: positions must be i32 [3], one a row, got i32[2]");
}

// ---- several sources

constexpr const char* kTwoEncoders =
    "{architecture: encoder_decoder, vocab_size: 11, hidden_size: 8, num_hidden_layers: 1, max_position_embeddings: "
    "12, "
    "position: sinusoidal, mixer: {type: attention, num_attention_heads: 2}, ffn: {type: gelu, intermediate_size: 6}, "
    "encoders: {syntax: {vocab_size: 5, num_hidden_layers: 2}}, layers: {all: {sub_layers: [mixer, cross, {cross: "
    "{type: attention, num_attention_heads: 2}, source: syntax}, ffn]}}, layer_types: [all]}";

ModelInput two_sources(const std::vector<int>& ids, const std::vector<int>& source, const std::vector<int>& syntax) {
  ModelInput out{kit::ids_of(ids), Sequences::single(int64_t(ids.size()))};
  out.sources[kSource] = {kit::ids_of(source), Sequences::single(int64_t(source.size()))};
  out.sources["syntax"] = {kit::ids_of(syntax), Sequences::single(int64_t(syntax.size()))};
  return out;
}

TEST(ModelInput, ADecoderReadsSeveralSourcesByName) {
  const auto model = made(kTwoEncoders, "", kit::kTrainable);
  EXPECT_EQ(model->parameters().find("encoders.syntax.embedding.weight")->master.shape(), (Shape{5, 8}));
  const ModelInput input = two_sources({1, 2, 3}, {4, 5}, {0, 3, 4, 1});
  const Tensor whole = run(*model, input).x.value();
  EXPECT_GT(kit::largest_difference(whole, run(*model, two_sources({1, 2, 3}, {4, 6}, {0, 3, 4, 1})).x.value()), 1e-3);
  EXPECT_GT(kit::largest_difference(whole, run(*model, two_sources({1, 2, 3}, {4, 5}, {0, 3, 4, 2})).x.value()), 1e-3);
  // Decoding keeps both.
  const auto state = model->make_state(1, 3);
  model->read_sources(*state, {{kSource, input.sources.at(kSource)}});
  EXPECT_EQ(kit::coded_error_of(
                [&] { kit::forward(*model, kit::ids_of({1}), model->continue_sequences(*state, {1}), state.get()); }),
            "1 model: the state has no syntax; give it one by read_sources() first");
  model->read_sources(*state, {{"syntax", input.sources.at("syntax")}});
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < 3; ++t)
    rows.push_back(
        clone(kit::forward(*model, input.tokens.slice(t, t + 1), model->continue_sequences(*state, {1}), state.get())
                  .value()));
  EXPECT_EQ(kit::close(kit::concatenate(rows), whole, 500), "");
  std::string where;
  EXPECT_LE(kit::gradient_error(
                model->parameters(),
                [&](const std::vector<Var>&) {
                  return std::vector<Var>{model->loss_of(run(*model, input), {}, {.labels = kit::ids_of({2, 3, 4})})};
                },
                {}, &where),
            1e-6)
      << where;
  ModelInput without = input;
  without.sources.erase("syntax");
  EXPECT_EQ(error_of(*model, without),
            "1 model: an encoder-decoder reads one syntax a sequence: 1 sequences, got sources of 0");
}

TEST(ModelInput, AnEncoderThatNothingReadsIsRefused) {
  EXPECT_NE(kit::error_of([] {
              kit::model_config(kTwoEncoders, "layers: {all: {}}").validate();
            }).find("encoders has 'syntax', which no layer reads"),
            std::string::npos);
  EXPECT_NE(kit::error_of([] {
              kit::model_config(kTwoEncoders,
                                "layers: {all: {sub_layers: [mixer, {cross: {type: attention}, source: trees}, ffn]}}")
                  .layer(0);
            }).find("reads the encoder 'trees', the model has source, syntax"),
            std::string::npos);
}

}  // namespace
}  // namespace lithe
