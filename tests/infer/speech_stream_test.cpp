#include "lithe/infer/speech_stream.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/data/features.h"
#include "lithe/objective/device_batch.h"
#include "tests/support/errors.h"
#include "tests/support/model_kit.h"

namespace lithe {
namespace {

constexpr const char* kModel =
    "{architecture: decoder, hidden_size: 12, num_hidden_layers: 3, vocab_size: 1, token_width: 1, "
    "max_position_embeddings: 400, num_labels: 4, label_names: [a, b, c, d], modalities: {audio: {type: features, "
    "num_features: 30}}, position: rotary, mixer: {type: attention, num_attention_heads: 2, field: {type: local, "
    "window: 6}}, layers: {near: {mixer: {type: conformer_convolution, kernel_size: 5}}, turning: {mixer: gru}, far: "
    "{}}, layer_types: [near, turning, far], ffn: {type: gelu}, head: {type: ctc}, tie_word_embeddings: false}";

const AudioConfig kAudio{.sample_rate = 8000, .features = "kaldi", .num_mel_bins = 10, .frames_per_row = 3};

std::unique_ptr<Tokenizer> no_text() { return make_tokenizer({.type = "none", .specials = {"[PAD]"}}, {}); }

std::vector<float> sound() {
  std::vector<float> out;
  for (int t = 0; t < 12000; ++t)
    out.push_back(float(0.3 * std::sin(0.0004 * t * (200 + 90 * std::sin(t * 0.0011))) * (1 + std::cos(t * 0.002))));
  return out;
}

TEST(SpeechStream, WritesWhatIsReadOfTheWholeSound) {
  Model model(kit::model_config(kModel), kit::kExact);
  kit::randomise(model.parameters(), 3, 0.6);
  const auto tokenizer = no_text();
  const std::vector<float> samples = sound(), rows = sound_rows(samples, 8000, kAudio, MelFeatures(kAudio.mel()), {});
  lithe::Batch batch{.offsets = {0, 0}};
  const auto count = int64_t(rows.size()) / kAudio.row_width();
  add_feature_rows(batch, "audio", count, kAudio.row_width(), rows);
  const NoGrad no_grad;
  Pass pass;
  const std::vector<PlacedLabel> whole =
      ctc_greedy(model.logits(model.run(to_device(batch, Device::cpu).input, pass)).value(), 0, count);
  ASSERT_GE(whole.size(), 5u);
  for (const size_t piece : {size_t(100), size_t(801), size_t(4000), size_t(20000)}) {
    SpeechStream stream(model, *tokenizer, kAudio);
    std::vector<int32_t> before;
    for (size_t at = 0; at < samples.size(); at += piece) {
      stream.push(std::span(samples).subspan(at, std::min(piece, samples.size() - at)));
      std::vector<int32_t> now;
      for (const PlacedLabel& label : stream.labels()) now.push_back(label.label);
      ASSERT_GE(now.size(), before.size());  // nothing is taken back
      EXPECT_TRUE(std::equal(before.begin(), before.end(), now.begin()));
      before = now;
    }
    stream.finish();
    EXPECT_EQ(stream.rows(), count);
    ASSERT_EQ(stream.labels().size(), whole.size()) << piece;
    for (size_t i = 0; i < whole.size(); ++i) {
      EXPECT_EQ(stream.labels()[i].label, whole[i].label);
      EXPECT_EQ(stream.labels()[i].begin, whole[i].begin);
      EXPECT_EQ(stream.labels()[i].end, whole[i].end);
      EXPECT_NEAR(stream.labels()[i].log_probability, whole[i].log_probability, 1e-9);
    }
  }
}

TEST(SpeechStream, KeepsNoMoreOfALongerSoundWhereLayersSeeAWindow) {
  Model model(kit::model_config(kModel), kit::kExact);
  kit::randomise(model.parameters(), 3);
  const auto tokenizer = no_text();
  SpeechStream stream(model, *tokenizer, kAudio);
  int64_t most = 0;
  for (int i = 0; i < 8; ++i) {
    stream.push(sound());
    if (i == 3) most = stream.state_bytes();
  }
  EXPECT_LE(stream.state_bytes(), most);
}

TEST(SpeechStream, SaysWhyAModelCannot) {
  const auto tokenizer = no_text();
  const auto refusal = [&](const char* more) {
    Model model(kit::model_config("{architecture: decoder, hidden_size: 12, num_hidden_layers: 1, vocab_size: 9, "
                                  "token_width: 1, max_position_embeddings: 40, num_labels: 4, mixer: {type: "
                                  "attention, num_attention_heads: 2}, head: {type: ctc}, tie_word_embeddings: false}",
                                  more),
                kit::kExact);
    return kit::error_of([&] { SpeechStream(model, *tokenizer, kAudio); });
  };
  EXPECT_EQ(refusal(""), "no error");
  EXPECT_NE(refusal("architecture: encoder").find("see the rest of the sound"), std::string::npos);
  EXPECT_NE(refusal("head: lm").find("needs head ctc"), std::string::npos);
}

}  // namespace
}  // namespace lithe
