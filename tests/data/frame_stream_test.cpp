#include "lithe/data/frame_stream.h"

#include <gtest/gtest.h>

#include <cmath>

#include "lithe/base/random.h"
#include "tests/support/errors.h"

namespace lithe {
namespace {

std::vector<float> sound(int64_t count) {
  std::vector<float> out;
  const RandomKey key{.purpose = purpose_of("frame_stream_test")};
  for (int64_t t = 0; t < count; ++t) out.push_back(float(0.2 * random_normal(key, uint64_t(t))));
  return out;
}

TEST(FrameStream, GivesTheRowsOfTheWholeToTheBit) {
  for (const int64_t count : {200, 280, 281, 360, 2000, 2039, 2040, 4321})
    for (const int64_t side_by_side : {1, 3, 4})
      for (const double dither : {0.0, 1.0}) {
        const AudioConfig config{.sample_rate = 8000,
                                 .features = "kaldi",
                                 .num_mel_bins = 20,
                                 .frames_per_row = side_by_side,
                                 .dither = dither};
        const std::vector<float> samples = sound(count),
                                 whole = sound_rows(samples, 8000, config, MelFeatures(config.mel()), {});
        for (const size_t piece : {size_t(1), size_t(7), size_t(80), size_t(333), size_t(5000)}) {
          FrameStream stream(config);
          std::vector<float> rows;
          const auto add = [&](const std::vector<float>& more) {
            EXPECT_EQ(more.size() % size_t(config.row_width()), 0u);
            rows.insert(rows.end(), more.begin(), more.end());
          };
          for (size_t at = 0; at < samples.size(); at += piece)
            add(stream.push(std::span(samples).subspan(at, std::min(piece, samples.size() - at))));
          add(stream.finish());
          ASSERT_EQ(rows, whole) << count << " " << side_by_side << " " << piece;
        }
      }
}

TEST(FrameStream, GivesRowsAsSoonAsTheyAreWhole) {
  FrameStream stream({.sample_rate = 8000, .features = "kaldi", .num_mel_bins = 10, .frames_per_row = 2});
  const std::vector<float> samples = sound(400);
  EXPECT_TRUE(stream.push(std::span(samples).first(279)).empty());         // frames of 200 every 80
  EXPECT_EQ(stream.push(std::span(samples).subspan(279, 1)).size(), 20u);  // two of them
}

TEST(FrameStream, SaysWhatNeedsTheWholeSound) {
  const auto refusal = [](const AudioConfig& config) { return kit::error_of([&] { FrameStream{config}; }); };
  const AudioConfig good{.sample_rate = 8000, .features = "kaldi"};
  AudioConfig c = good;
  c.features = "whisper";
  EXPECT_NE(refusal(c).find("features whisper bounds each frame by the largest number"), std::string::npos);
  c = good, c.normalise = "utterance";
  EXPECT_NE(refusal(c).find("normalise utterance takes the mean"), std::string::npos);
  c = good, c.pad_seconds = 3;
  EXPECT_NE(refusal(c).find("pad_seconds 3"), std::string::npos);
  FrameStream short_one(good);
  EXPECT_TRUE(short_one.push(sound(199)).empty());
  EXPECT_NE(kit::error_of([&] { short_one.finish(); }).find("too short for a frame"), std::string::npos);
}

}  // namespace
}  // namespace lithe
