// An encoder-decoder that reads sounds: frames, a front end of strided convolutions, one encoder.
#include <gtest/gtest.h>

#include "lithe/base/token_code.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

std::string speech_model(const std::string& front) {
  return "{architecture: encoder_decoder, hidden_size: 8, num_hidden_layers: 1, vocab_size: 11, position: none, "
         "max_position_embeddings: 200, norm: layer, mixer: {type: attention, num_attention_heads: 2}, ffn: {type: "
         "gelu, "
         "intermediate_size: 12}, tie_word_embeddings: false, encoder: {num_hidden_layers: 3, modalities: {audio: "
         "{type: "
         "features, num_features: 5}}, layers: {front: {" +
         front + "}, speech: {}}, layer_types: [front, front, speech]}}";
}

// Sounds of these frames, and three target tokens each.
ModelInput heard(const std::vector<int64_t>& frames, int64_t first = 0) {
  std::vector<int64_t> offsets{0}, targets{0};
  for (const int64_t n : frames) offsets.push_back(offsets.back() + n), targets.push_back(targets.back() + 3);
  const int64_t N = offsets.back();
  ModelInput source{zeros({N}, DType::i32), Sequences(offsets)};
  ModelInput::Guests audio{empty({N, 6}, DType::i32), {}};
  for (int64_t r = 0; r < N; ++r) {
    audio.rows.push_back(r);
    audio.tokens.data<int32_t>()[6 * r] = code_ordinary;
    for (int64_t c = 0; c < 5; ++c)
      audio.tokens.data<int32_t>()[6 * r + 1 + c] = code_of_number(float((7 * (first + r) + 3 * c) % 11) / 5 - 1);
  }
  source.modalities["audio"] = audio;
  std::vector<int> ids;
  for (int64_t i = 0; i < targets.back(); ++i) ids.push_back(int(i % 3 + 1));
  return {.tokens = kit::ids_of(ids), .sequences = Sequences(targets), .sources = {{kSource, source}}};
}

std::unique_ptr<Model> speech_made(const std::string& front) {
  auto model = std::make_unique<Model>(kit::model_config(speech_model(front)), kit::kExact);
  kit::randomise(model->parameters(), 4);
  return model;
}

Rows decoded(const Model& model, const ModelInput& input) {
  Pass pass;
  return model.run(input, pass, nullptr);
}

int64_t rows_left(const Model& model, int64_t frames) {
  Pass pass;
  return model.encode(heard({frames}).sources.at(kSource), pass).sequences.rows();
}

// oracle: app.st_single
TEST(SpeechModel, TheFrontEndLeavesAQuarterOfTheFrames) {
  const auto padded =
                 speech_made("compressor: {type: strided_conv, kernel: 3, stride: 2, padding: 1}, sub_layers: [ffn]"),
             pairs = speech_made("compressor: {type: strided_conv, kernel: 2, stride: 2}, sub_layers: [ffn]");
  for (const int64_t frames : {100, 101, 102, 103}) {
    EXPECT_EQ(rows_left(*padded, frames), ((frames + 1) / 2 + 1) / 2);  // floor((m + 2 - 3) / 2) + 1, twice
    EXPECT_EQ(rows_left(*pairs, frames), frames / 2 / 2);
  }
}

// oracle: app.st_single
TEST(SpeechModel, WithAFrontEndThatIsTheIdentityItIsTheEncoderDecoder) {
  const auto plain = speech_made(""), front = speech_made("compressor: {type: strided_conv, kernel: 1, stride: 1}");
  for (Parameter& p : front->parameters().all()) {
    if (const Parameter* same = plain->parameters().find(p.name)) {
      copy_into(p.master.value(), same->master.value());
      continue;
    }
    fill_zero(p.master.value());
    if (p.name.ends_with("weight"))
      for (int64_t i = 0; i < 8; ++i) set_value(p.master.value(), 9 * i, 1);
  }
  EXPECT_EQ(kit::close(decoded(*front, heard({6, 9})).x.value(), decoded(*plain, heard({6, 9})).x.value(), 64), "");
}

// oracle: app.st_single
TEST(SpeechModel, SoundsDoNotReadEachOthersFrames) {
  const auto model =
      speech_made("compressor: {type: strided_conv, kernel: 3, stride: 2, padding: 1}, sub_layers: [ffn]");
  const Tensor together = decoded(*model, heard({7, 12})).x.value();
  EXPECT_EQ(kit::close(together.slice(0, 3), decoded(*model, heard({7})).x.value(), 64), "");
  EXPECT_EQ(kit::close(together.slice(3, 6), decoded(*model, heard({12}, 7)).x.value(), 64), "");
}

}  // namespace
}  // namespace lithe
