// Sounds as features of examples: rows, augmentation, manifests.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "lithe/base/files.h"
#include "lithe/data/sound.h"
#include "lithe/data/sound_features.h"
#include "lithe/data/task_batches.h"
#include "tests/support/errors.h"
#include "tests/support/process.h"

namespace lithe {
namespace {

// A second of a tone as a WAV file of 16-bit samples.
std::string tone_file(int64_t count, int rate) {
  const auto number = [](uint64_t value, int bytes) {
    std::string out;
    for (int i = 0; i < bytes; ++i) out += char(value >> (8 * i) & 0xff);
    return out;
  };
  std::string data;
  for (int64_t t = 0; t < count; ++t)
    data += number(uint16_t(int16_t(std::lround(9000 * std::sin(2 * std::numbers::pi * 440 * double(t) / rate)))), 2);
  return "RIFF" + number(36 + data.size(), 4) + "WAVEfmt " + number(16, 4) + number(1, 2) + number(1, 2) +
         number(uint64_t(rate), 4) + number(uint64_t(rate * 2), 4) + number(2, 2) + number(16, 2) + "data" +
         number(data.size(), 4) + data;
}

class SoundRows : public testing::Test {
 protected:
  const kit::Scratch scratch_;
  std::string write(const std::string& name, const std::string& bytes) const {
    write_file(scratch_.path() / name, bytes);
    return scratch_ / name;
  }
};

TEST_F(SoundRows, DependOnTheDrawAlone) {
  AudioConfig config{.sample_rate = 16000,
                     .features = "kaldi",
                     .normalise = "utterance",
                     .num_mel_bins = 20,
                     .frames_per_row = 3,
                     .dither = 1,
                     .speeds = {0.9, 1, 1.1},
                     .frequency_masks = 1,
                     .frequency_mask_bins = 5,
                     .time_masks = 1};
  const auto reader = audio_reader(config);
  const std::string path = write("tone.wav", tone_file(4000, 8000));
  const auto read = [&](const FeatureDraw& draw) {
    std::vector<float> out;
    const int64_t rows = reader->read(path, draw, out);
    EXPECT_EQ(int64_t(out.size()), rows * reader->width());
    EXPECT_LE(rows, reader->most_rows(path));
    return out;
  };
  EXPECT_EQ(reader->width(), 60);
  EXPECT_EQ(read({}), read({.augment = false, .seed = 4, .epoch = 9, .example = 2}));
  EXPECT_EQ(int64_t(read({}).size()) / 60, (mel_frames(config.mel(), 8000) + 2) / 3);
  const FeatureDraw first{.augment = true, .seed = 1, .epoch = 3, .example = 5};
  EXPECT_EQ(read(first), read(first));
  std::vector<size_t> sizes;
  for (int64_t epoch = 0; epoch < 12; ++epoch) {
    FeatureDraw other = first;
    other.epoch = epoch;
    sizes.push_back(read(other).size());
  }
  std::sort(sizes.begin(), sizes.end());
  EXPECT_GT(sizes.back(), sizes.front());  // several speeds were drawn
}

TEST(MaskFrames, CoversWholeBinsAndFrames) {
  const AudioConfig config{.sample_rate = 16000,
                           .num_mel_bins = 8,
                           .frequency_masks = 1,
                           .frequency_mask_bins = 3,
                           .time_masks = 1,
                           .time_mask_frames = 4,
                           .time_mask_share = 0.5};
  bool some = false;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<float> frames(80, 1);
    mask_frames(frames, config, {seed, 0, 0, 0}, 0);
    std::vector<bool> bins(8, true), times(10, true);
    for (size_t i = 0; i < 80; ++i)
      if (frames[i] != 0) bins[i % 8] = times[i / 8] = false;
    for (size_t i = 0; i < 80; ++i) EXPECT_EQ(frames[i] == 0, bins[i % 8] || times[i / 8]);
    EXPECT_LE(std::count(bins.begin(), bins.end(), true), 3);
    EXPECT_LE(std::count(times.begin(), times.end(), true), 4);
    some = some || std::count(bins.begin(), bins.end(), true) > 0;
  }
  EXPECT_TRUE(some);
}

// ---- manifests

TaskConfig spoken_task(const std::string& manifest) {
  TaskConfig task;
  task.type = "text";
  task.train = {manifest};
  task.audio = "1", task.text = "2", task.label = "3", task.transcript = "2";
  return task;
}

// oracle: app.st_two_stream
TEST_F(SoundRows, OfAManifestAreReadByTheStreamThatIsDrawn) {
  write("a.wav", tone_file(4000, 8000));
  const std::string manifest = write("list.tsv", "a.wav\tab\tx\na.wav\t\ty\n");
  const TaskData data = load_task(spoken_task(manifest));
  ASSERT_EQ(data.train.size(), 2u);
  EXPECT_EQ(data.train[0].transcript, "ab");
  const auto tokenizer = make_tokenizer({.type = "bytes"}, {});
  const AudioConfig audio{.sample_rate = 8000, .num_mel_bins = 20};
  const auto source = [&](std::vector<Streams> streams, Streams otherwise, bool training, int64_t epoch) {
    const TaskBatches batches(data.train, TaskType::text, *tokenizer, 64, 128, 1, training,
                              {.features = {{"audio", audio_reader(audio)}},
                               .answers = {.reads_source = true},
                               .streams = std::move(streams),
                               .eval_stream = otherwise});
    return batches.batch(epoch, 0).sources.at("source");
  };
  const int64_t frames = 50;
  const Batch both = source({}, Streams::both, false, 0), st = source({}, Streams::st, false, 0),
              mt = source({}, Streams::mt, false, 0);
  EXPECT_EQ(both.offsets, (std::vector<int64_t>{0, 3 + frames, 4 + 2 * frames}));  // a, b, the end; the end
  EXPECT_EQ(st.offsets, (std::vector<int64_t>{0, frames, 1 + 2 * frames}));
  EXPECT_EQ(mt.offsets, (std::vector<int64_t>{0, 3, 4 + frames}));  // the second example has a sound alone
  EXPECT_EQ(int64_t(both.modalities.at("audio").rows.size()), 2 * frames);
  EXPECT_EQ(both.modalities.at("audio").token_width, 21);
  // The transcript's tokens from the first row on.
  const std::vector<int32_t>& column = st.columns.at("transcript");
  const std::vector<int32_t> tokens = tokenizer->encode("ab");
  EXPECT_EQ(int64_t(column.size()), 1 + 2 * frames);
  EXPECT_EQ(std::vector<int32_t>(column.begin(), column.begin() + 3), (std::vector<int32_t>{tokens[0], tokens[1], -1}));
  EXPECT_EQ(std::count(column.begin(), column.end(), -1), 2 * frames - 1);
  std::vector<int64_t> drawn;
  for (int64_t epoch = 0; epoch < 20; ++epoch) {
    const Batch one = source({Streams::st, Streams::mt, Streams::both}, Streams::st, true, epoch);
    EXPECT_EQ(one.offsets, source({Streams::st, Streams::mt, Streams::both}, Streams::st, true, epoch).offsets);
    drawn.push_back(one.rows());
  }
  std::sort(drawn.begin(), drawn.end());
  EXPECT_EQ(std::unique(drawn.begin(), drawn.end()) - drawn.begin(), 3);
}

TEST_F(SoundRows, OfADamagedFileNameItInALine) {
  const std::string cut = write("cut.wav", tone_file(4000, 8000).substr(0, 500)),
                    brief = write("brief.wav", tone_file(90, 8000));
  const auto reader = audio_reader({.sample_rate = 8000, .features = "kaldi", .num_mel_bins = 20});
  const auto refusal = [&](const std::string& path) {
    std::vector<float> out;
    return kit::error_of([&] { reader->read(path, {}, out); });
  };
  EXPECT_NE(refusal(cut).find("is cut"), std::string::npos);
  EXPECT_NE(refusal(brief).find("too short for a frame"), std::string::npos);
  EXPECT_NE(refusal(brief).find(brief), std::string::npos);
}

TEST(AudioConfig, RefusesWhatHasNoFrames) {
  const auto refusal = [](const AudioConfig& config) { return kit::coded_error_of([&] { audio_reader(config); }); };
  EXPECT_EQ(refusal({.sample_rate = 8000}), "no error");
  EXPECT_EQ(refusal({.sample_rate = 11025}).substr(0, 2), "2 ");
  EXPECT_EQ(refusal({.sample_rate = 8000, .num_mel_bins = 400}).substr(0, 2), "2 ");
  EXPECT_EQ(refusal({.sample_rate = 8000, .dither = 1}).substr(0, 2), "2 ");
  EXPECT_EQ(refusal({.sample_rate = 8000, .speeds = {3}}).substr(0, 2), "2 ");
}

}  // namespace
}  // namespace lithe
