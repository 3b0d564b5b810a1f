// Pictures as tokens, and models that read them: ViT, an encoder of text and pictures, a decoder behind pictures.
#include <gtest/gtest.h>

#include <cmath>

#include "lithe/base/token_code.h"
#include "lithe/data/features.h"
#include "lithe/data/image.h"
#include "lithe/model/model.h"
#include "lithe/objective/device_batch.h"
#include "lithe/ops/basic.h"
#include "lithe/parts/common/patch_positions.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

constexpr int64_t kSide = 4, kPatch = 2, kCells = 4, kNumbers = 12;

ModelConfig config_of(const std::string& yaml) {
  ModelConfig out = read_model_config(parse_yaml(yaml, "test"));
  out.validate();
  return out;
}

const std::string kSizes =
    "hidden_size: 16, num_hidden_layers: 2, vocab_size: 11, max_position_embeddings: 9, num_labels: 3, norm: layer, "
    "mixer: {type: attention, num_attention_heads: 2}, ffn: {type: gelu, intermediate_size: 24}, "
    "tie_word_embeddings: false, ";
const std::string kPicture =
    "modalities: {image: {type: patches, height: 4, patch_size: 2, position: learned, modality_row: true}}, ";

Model f64_model(const std::string& yaml, bool trainable = false) {
  return Model(config_of(yaml), {.dtype = DType::f64, .compute = DType::f64, .seed = 3, .trainable = trainable});
}

std::vector<float> picture(int seed) {
  std::vector<float> out;
  for (int i = 0; i < kCells * kNumbers; ++i) out.push_back(float(std::sin(i * 0.7 + seed)));
  return out;
}

// Sequences of text with a picture behind (or before) it; -1: none.
Batch batch_of(const std::vector<std::vector<int32_t>>& texts, const std::vector<int>& pictures, bool first = false) {
  Batch out{.offsets = {0}};
  for (size_t b = 0; b < texts.size(); ++b) {
    out.offsets.push_back(out.rows());
    if (first && pictures[b] >= 0) add_feature_rows(out, "image", kCells, kNumbers, picture(pictures[b]));
    out.tokens.insert(out.tokens.end(), texts[b].begin(), texts[b].end());
    out.offsets.back() = out.rows();
    if (!first && pictures[b] >= 0) add_feature_rows(out, "image", kCells, kNumbers, picture(pictures[b]));
  }
  out.labels.assign(size_t(out.rows()), -1);
  return out;
}

Tensor logits_of(const Model& model, const Batch& batch) {
  const NoGrad no_grad;
  Pass pass;
  return model.logits(model.run(to_device(batch, Device::cpu).input, pass)).value();
}

std::vector<double> row_of(const Tensor& x, int64_t row) {
  std::vector<double> out;
  for (int64_t c = 0; c < x.cols(); ++c) out.push_back(value_at(x, row * x.cols() + c));
  return out;
}

void expect_close(const std::vector<double>& a, const std::vector<double>& b, double tolerance = 1e-11) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], tolerance) << i;
}

// oracle: app.vit
TEST(Vit, BaseHasThePublishedParameters) {
  const Model model(
      config_of("{architecture: encoder, hidden_size: 768, num_hidden_layers: 12, vocab_size: 1, num_labels: 1000, "
                "max_position_embeddings: 1, position: learned, modalities: {image: {type: patches, height: 224, "
                "patch_size: 16, position: learned}}, mixer: {type: attention, num_attention_heads: 12, "
                "attention_bias: true, output_bias: true}, ffn: {type: gelu, intermediate_size: 3072}, norm: layer, "
                "residual: pre, head: {type: classify, dense: false}, tie_word_embeddings: false}"),
      {.device = Device::meta});
  EXPECT_EQ(model.parameters().count(), 86567656);
}

// A convolution with stride 2 over the picture, written out.
// oracle: app.vit
TEST(Vit, ThePatchEmbeddingIsAConvolutionOfItsStride) {
  Model model = f64_model("{" + kSizes +
                          "architecture: encoder, position: none, modalities: {image: {type: patches, height: 4, "
                          "patch_size: 2}}, head: {type: classify, pooling: mean, dense: false}}");
  const Tensor kernel = model.parameters().find("modalities.image.projection.weight")->master.value();
  const Tensor bias = model.parameters().find("modalities.image.projection.bias")->master.value();
  Pixels image{kSide, kSide, 3, {}};
  for (int i = 0; i < 48; ++i) image.values.push_back(float(std::cos(i)));
  const std::vector<float> patches = patchify(image, kPatch);
  Parameters unused;
  BuildContext context{.parameters = &unused, .dtype = DType::f64, .compute = DType::f64};
  Batch batch{.offsets = {0, 0}};
  add_feature_rows(batch, "image", kCells, kNumbers, patches);
  Pass pass;
  pass.want({Tap::Kind::input, 0});
  const auto embedding =
      Registry::instance().make<Embedding>({"patches", parse_yaml("{height: 4, patch_size: 2}", "test")},
                                           Scope(context, "x"), {.vocab_size = 1, .hidden_size = 16, .token_width = 0});
  for (const char* name : {"weight", "bias"})
    unused.find(cat("x.projection.", name))->assign(name == std::string("bias") ? bias : kernel);
  const Tensor rows = embedding->forward(to_device(batch, Device::cpu).input.modalities.at("image").tokens).value();
  for (int64_t y = 0; y < 2; ++y)
    for (int64_t x = 0; x < 2; ++x)
      for (int64_t d = 0; d < 16; ++d) {
        double sum = value_at(bias, d);
        for (int64_t r = 0; r < 2; ++r)
          for (int64_t c = 0; c < 2; ++c)
            for (int64_t k = 0; k < 3; ++k)
              sum += double(image.values[size_t(((2 * y + r) * 4 + 2 * x + c) * 3 + k)]) *
                     value_at(kernel, ((r * 2 + c) * 3 + k) * 16 + d);
        EXPECT_NEAR(value_at(rows, (2 * y + x) * 16 + d), sum, 1e-12);
      }
}

// oracle: app.vit
TEST(Vit, PatchesThatMoveWithTheirPlacesAreTheSamePicture) {
  Model model = f64_model("{" + kSizes + kPicture +
                          "architecture: encoder, position: learned, head: {type: classify, dense: false}}");
  const Batch batch = batch_of({{0}}, {1});
  const Tensor before = logits_of(model, batch);
  Batch moved = batch;
  Tensor table = model.parameters().find("modalities.image.position.weight")->master.value();
  const std::vector<int> order{2, 0, 3, 1};
  const Tensor old = clone(table);
  for (int64_t i = 0; i < kCells; ++i) {
    std::copy_n(batch.modalities.at("image").tokens.begin() + order[size_t(i)] * 13, 13,
                moved.modalities.at("image").tokens.begin() + i * 13);
    for (int64_t d = 0; d < 16; ++d) table.data<double>()[i * 16 + d] = value_at(old, order[size_t(i)] * 16 + d);
  }
  model.parameters().refresh_views();
  expect_close(row_of(logits_of(model, moved), 0), row_of(before, 0));
}

TEST(Vit, PlacesAreInterpolated) {
  // One place of a table of one; the same size; and a straight line stays one, away from the sides.
  const Tensor one = bicubic_shares({1, 1}, {2, 2}, DType::f64, Device::cpu);
  for (int64_t i = 0; i < 4; ++i) EXPECT_NEAR(value_at(one, i), 1, 1e-15);
  const Tensor same = bicubic_shares({3, 2}, {3, 2}, DType::f64, Device::cpu);
  for (int64_t i = 0; i < 36; ++i) EXPECT_NEAR(value_at(same, i), i / 6 == i % 6, 1e-15);
  const Tensor wide = bicubic_shares({1, 8}, {1, 16}, DType::f64, Device::cpu);
  for (int64_t x = 0; x < 16; ++x) {
    double at = 0, sum = 0;
    for (int64_t j = 0; j < 8; ++j) at += j * value_at(wide, x * 8 + j), sum += value_at(wide, x * 8 + j);
    EXPECT_NEAR(sum, 1, 1e-14);
    if (x >= 3 && x <= 12) {
      EXPECT_NEAR(at, (x + 0.5) / 2 - 0.5, 0.05) << x;
    }
  }
}

// oracle: app.mm_encoder_cls
TEST(PicturesAndText, AMissingPictureIsNothingAndTheOrderDoesNotMatter) {
  Model model = f64_model("{" + kSizes + kPicture +
                          "architecture: encoder, position: learned, head: {type: classify, dense: false}}");
  Model text_alone = f64_model("{" + kSizes +
                               "architecture: encoder, position: learned, head: {type: classify, dense: "
                               "false}}");
  for (Parameter& p : text_alone.parameters().all()) p.assign(model.parameters().find(p.name)->master.value());
  text_alone.parameters().refresh_views();
  const std::vector<std::vector<int32_t>> texts{{1, 5, 6, 2}, {1, 7, 2}};
  const Tensor none = logits_of(model, batch_of(texts, {-1, -1})),
               plain = logits_of(text_alone, batch_of(texts, {-1, -1}));
  const Tensor mixed = logits_of(model, batch_of(texts, {4, -1}));
  for (int64_t b = 0; b < 2; ++b) expect_close(row_of(none, b), row_of(plain, b));
  expect_close(row_of(mixed, 1), row_of(none, 1));
  EXPECT_GT(std::abs(row_of(mixed, 0)[0] - row_of(none, 0)[0]), 1e-4);
  // The class token first, the text and the picture in either order: between the first row and the rest.
  Batch other{.offsets = {0, 1}};
  other.tokens = {1};
  add_feature_rows(other, "image", kCells, kNumbers, picture(4));
  other.tokens.insert(other.tokens.end(), {5, 6, 2});
  other.offsets.back() = other.rows();
  expect_close(row_of(logits_of(model, other), 0), row_of(mixed, 0));
}

// oracle: app.mm_encoder_cls
TEST(PicturesAndText, GradientsReachBoth) {
  Model model = f64_model(
      "{" + kSizes + kPicture + "architecture: encoder, position: learned, head: {type: classify, dense: false}}",
      true);
  Batch batch = batch_of({{1, 5, 2}}, {3});
  batch.labels = {1};
  Tape tape;
  const DeviceBatch on = to_device(batch, Device::cpu);
  Pass pass;
  const Rows rows = model.run(on.input, pass);
  tape.backward(model.loss_of(rows, {}, {.labels = on.targets.labels}));
  for (const char* name : {"embedding.weight", "modalities.image.projection.weight", "modalities.image.position.weight",
                           "modalities.image.modality", "position.weight"}) {
    const Tensor grad = model.parameters().find(name)->master.grad();
    ASSERT_TRUE(grad.defined()) << name;
    double sum = 0;
    for (int64_t i = 0; i < grad.numel(); ++i) sum += std::abs(value_at(grad, i));
    EXPECT_GT(sum, 0) << name;
  }
}

const std::string kDecoder =
    "architecture: decoder, position: rotary, head: lm, modalities: {image: {type: patches, "
    "height: 4, patch_size: 2, modality_row: true}}, max_position_embeddings: 64, ";

Model decoder(const std::string& field) {
  std::string yaml = "{" + kSizes + kDecoder + "}";
  const std::string plain = "num_attention_heads: 2}";
  yaml.replace(yaml.find(plain), plain.size(), "num_attention_heads: 2, field: " + field + "}");
  yaml.erase(yaml.find("max_position_embeddings: 9, "), std::string("max_position_embeddings: 9, ").size());
  return f64_model(yaml);
}

// oracle: app.mm_decoder
TEST(PicturesBeforeText, ADecoderIsCausalAndDecodesAsItReads) {
  for (const char* field : {"full", "prefix"}) {
    const Model model = decoder(field);
    const Batch batch = batch_of({{1, 5, 6, 7}, {1, 8, 9}}, {2, 5}, true);
    const Tensor whole = logits_of(model, batch);
    // A later token changes nothing before it.
    Batch later = batch;
    later.tokens[7] = 3;
    const Tensor changed = logits_of(model, later);
    for (int64_t row = 0; row < 7; ++row) expect_close(row_of(changed, row), row_of(whole, row));
    // A later patch does, inside the picture, where the prefix is bidirectional.
    Batch patch = batch;
    patch.modalities.at("image").tokens[3 * 13 + 1] = code_of_number(9);
    const double moved = std::abs(row_of(logits_of(model, patch), 0)[0] - row_of(whole, 0)[0]);
    if (field == std::string("full"))
      EXPECT_EQ(moved, 0);
    else
      EXPECT_GT(moved, 1e-6);
    // The pictures and the first token in one pass, the others one by one.
    const NoGrad no_grad;
    const auto state = model.make_state(2, 16);
    ModelInput input = to_device(batch_of({{1}, {1}}, {2, 5}, true), Device::cpu).input;
    input.sequences = model.continue_sequences(*state, {5, 5});
    Pass first;
    model.run(input, first, state.get());
    const std::vector<std::vector<int32_t>> next{{5, 8}, {6, 9}};
    for (size_t t = 0; t < next.size(); ++t) {
      const ModelInput one{.tokens = tensor_of({2}, next[t]), .sequences = model.continue_sequences(*state, {1, 1})};
      Pass pass;
      const Tensor got = model.logits(model.run(one, pass, state.get())).value();
      expect_close(row_of(got, 0), row_of(whole, 5 + int64_t(t)));
      expect_close(row_of(got, 1), row_of(whole, 8 + 5 + int64_t(t)));
    }
  }
}

// oracle: app.mm_decoder
TEST(PicturesBeforeText, TextAloneIsTheLanguageModel) {
  Model model = decoder("prefix");
  std::string yaml = "{" + kSizes + "architecture: decoder, position: rotary, head: lm}";
  Model lm = f64_model(yaml);
  for (Parameter& p : lm.parameters().all()) p.assign(model.parameters().find(p.name)->master.value());
  lm.parameters().refresh_views();
  const Batch batch = batch_of({{1, 5, 6}}, {-1});
  for (int64_t row = 0; row < 3; ++row)
    expect_close(row_of(logits_of(model, batch), row), row_of(logits_of(lm, batch), row));
}

const std::string kWriter =
    "architecture: encoder_decoder, position: sinusoidal, head: lm, share_encoder_decoder_embeddings: false, ";

// oracle: app.mm_encdec
TEST(PicturesAndText, AClosedGateIsTheTextModel) {
  Model model = f64_model("{" + kSizes + kWriter + "encoder: {" + kPicture.substr(0, kPicture.size() - 2) +
                          "}, layers: {gated: {sub_layers: [mixer, {cross: {type: attention, num_attention_heads: 2}, "
                          "residual: rezero}, ffn]}}, layer_types: [gated, gated]}");
  Model lm = f64_model("{" + kSizes + "architecture: decoder, position: sinusoidal, head: lm}");
  for (Parameter& p : lm.parameters().all()) {
    const bool whole = p.name.starts_with("head");
    p.assign(model.parameters().find(whole ? p.name : "decoder." + p.name)->master.value());
  }
  lm.parameters().refresh_views();
  Batch text = batch_of({{1, 5, 6}}, {-1}), with = text;
  with.sources["source"] = batch_of({{2}}, {3});
  for (int64_t row = 0; row < 3; ++row)
    expect_close(row_of(logits_of(model, with), row), row_of(logits_of(lm, text), row));
  // A number a gate: 4 d^2 of the attention, and the norm before it.
  int64_t gates = 0, injected = 0;
  for (const Parameter& p : model.parameters().all()) {
    if (p.name.find("cross_residual") != std::string::npos) gates += p.master.shape().numel();
    if (p.name.find("cross.") != std::string::npos) injected += p.master.shape().numel();
  }
  EXPECT_EQ(gates, 2);
  EXPECT_EQ(injected, 2 * 4 * 16 * 16);
  model.parameters().find("decoder.layers.0.cross_residual.alpha")->master.value().data<double>()[0] = 1;
  model.parameters().refresh_views();
  EXPECT_GT(std::abs(row_of(logits_of(model, with), 0)[0] - row_of(logits_of(lm, text), 0)[0]), 1e-6);
}

// oracle: app.mm_encdec
TEST(PicturesAndText, AWriterReadsPicturesWithAndWithoutText) {
  const Model model = f64_model("{" + kSizes + kWriter + "encoder: {" + kPicture.substr(0, kPicture.size() - 2) + "}}");
  Batch batch = batch_of({{1, 5, 6, 7}, {1, 8, 9}}, {-1, -1});
  batch.sources["source"] = batch_of({{4, 5, 2}, {2}}, {3, 6});  // a question, and none: a caption
  const Tensor whole = logits_of(model, batch);
  Batch later = batch;
  later.tokens[3] = 3;
  for (int64_t row = 0; row < 3; ++row) expect_close(row_of(logits_of(model, later), row), row_of(whole, row));
  const NoGrad no_grad;
  const auto state = model.make_state(2, 8);
  const ModelInput given = to_device(batch, Device::cpu).input;
  model.read_sources(*state, given.sources);
  const std::vector<std::vector<int32_t>> steps{{1, 1}, {5, 8}, {6, 9}};
  for (size_t t = 0; t < steps.size(); ++t) {
    const ModelInput one{.tokens = tensor_of({2}, steps[t]), .sequences = model.continue_sequences(*state, {1, 1})};
    Pass pass;
    const Tensor got = model.logits(model.run(one, pass, state.get())).value();
    expect_close(row_of(got, 0), row_of(whole, int64_t(t)));
    expect_close(row_of(got, 1), row_of(whole, 4 + int64_t(t)));
  }
}

}  // namespace
}  // namespace lithe
